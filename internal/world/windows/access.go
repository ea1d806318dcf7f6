//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Access is decided by an access control list. Those that this program creates know two modes: only
// Administrators and SYSTEM have access, or other users may read as well. They inherit nothing from
// the directory above, since the root of the system drive lets every user create files below it. A
// process that is not elevated cannot give files to Administrators, so its own user has access too.

// descriptor returns the security descriptor of a new file or directory of that mode, in the
// security descriptor definition language. user is the SID of a process that is not elevated.
func descriptor(mode fs.FileMode, dir bool, user string) string {
	inherit, byAll := "", "(A;;FRFX;;;WD)"
	if dir {
		// Files that other programs create in it are private, so that the kubelet's are.
		inherit, byAll = "OICI", "(A;CI;FRFX;;;WD)"
	}
	if dir && isPublicToWrite(mode) { // as below the root of a drive: a file is the user's who created it
		byAll = "(A;OICI;FRFX;;;WD)(A;CI;0x6;;;WD)(A;OICIIO;FA;;;CO)" // 0x6: create files and directories
	}
	entry := func(rights, who string) string {
		return fmt.Sprintf("(A;%s;%s;;;%s)", inherit, rights, who)
	}
	text := "D:P" + entry("FA", "BA") + entry("FA", "SY")
	if user == "" {
		text = "O:BA" + text
	} else {
		text += entry("FA", user)
	}
	if isPublic(mode) {
		text += byAll
	}
	return text
}

// isPublicToWrite reports whether every user may create files in a directory.
func isPublicToWrite(mode fs.FileMode) bool { return mode&0o002 != 0 }

// isPublic reports whether users other than the owner may read.
func isPublic(mode fs.FileMode) bool { return mode&0o004 != 0 }

// newDescriptor is the descriptor of what this process creates.
func newDescriptor(mode fs.FileMode, dir bool) (*windows.SECURITY_DESCRIPTOR, error) {
	user := ""
	if token := windows.GetCurrentProcessToken(); !token.IsElevated() {
		u, err := token.GetTokenUser()
		if err != nil {
			return nil, fmt.Errorf("reading the user of this process: %w", err)
		}
		user = u.User.Sid.String()
	}
	return windows.SecurityDescriptorFromString(descriptor(mode, dir, user))
}

// newAttributes are for the calls that create a file or directory.
func newAttributes(d *windows.SECURITY_DESCRIPTOR) *windows.SecurityAttributes {
	a := &windows.SecurityAttributes{SecurityDescriptor: d}
	a.Length = uint32(unsafe.Sizeof(*a))
	return a
}

// readDescriptor reads owner and access control list of a file or directory.
func readDescriptor(name string) (*windows.SECURITY_DESCRIPTOR, error) {
	d, err := windows.GetNamedSecurityInfo(name, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, &fs.PathError{Op: "reading the access control list", Path: name, Err: err}
	}
	return d, nil
}

// readAccess is readDescriptor of what is open.
func readAccess(h windows.Handle) (*windows.SECURITY_DESCRIPTOR, error) {
	d, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return nil, fmt.Errorf("reading the access control list: %w", err)
	}
	return d, nil
}

// Rights that let a user change a file, or who may access it.
const changingRights = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.DELETE |
	windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_WRITE | windows.GENERIC_ALL |
	fileDeleteChild

const (
	fileDeleteChild = 0x40 // FILE_DELETE_CHILD
	readingRights   = windows.FILE_READ_DATA | windows.GENERIC_READ | windows.GENERIC_ALL
	inheritOnly     = 0x8 // INHERIT_ONLY_ACE
)

// permissions returns the permissions of Unix that correspond to a descriptor, and a number for the
// owner: 0 for a trusted one. Administrators, SYSTEM and Windows itself are trusted, and so is the
// user of this process.
func permissions(d *windows.SECURITY_DESCRIPTOR, dir bool) (mode fs.FileMode, uid int, err error) {
	mode, all := fs.FileMode(0o600), fs.FileMode(0o666)
	if dir {
		mode, all = 0o700, 0o777
	}
	owner, _, err := d.Owner()
	if err != nil {
		return 0, 0, fmt.Errorf("reading an owner: %w", err)
	}
	if owner != nil && !isTrusted(owner) {
		uid = userNumber(owner)
	}
	list, _, err := d.DACL()
	if errors.Is(err, windows.ERROR_OBJECT_NOT_FOUND) || err == nil && list == nil {
		return all, uid, nil // no list: everybody has access
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading an access control list: %w", err)
	}
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &ace); err != nil {
			return 0, 0, fmt.Errorf("reading an access control list: %w", err)
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE ||
			ace.Header.AceFlags&inheritOnly != 0 {
			continue
		}
		who := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		if isTrusted(who) || owner != nil && who.Equals(owner) {
			continue
		}
		if ace.Mask&changingRights != 0 {
			mode |= 0o022
		}
		if ace.Mask&readingRights != 0 {
			mode |= 0o044
			if dir {
				mode |= 0o011
			}
		}
	}
	return mode, uid, nil
}

// trustedInstaller is the owner of the files of Windows.
const trustedInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

func isTrusted(who *windows.SID) bool {
	if who.IsWellKnown(windows.WinBuiltinAdministratorsSid) ||
		who.IsWellKnown(windows.WinLocalSystemSid) || who.String() == trustedInstaller {
		return true
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	return err == nil && who.Equals(user.User.Sid)
}

// userNumber is the last part of a SID: the number of an account on its machine or in its domain.
func userNumber(who *windows.SID) int {
	n := who.SubAuthorityCount()
	if n == 0 {
		return 1
	}
	return int(who.SubAuthority(uint32(n) - 1))
}
