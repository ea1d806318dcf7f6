//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows"

	"kubeadm/internal/problem"
)

// openedDir is a directory that is open, as are those above it. Windows lets no program rename, remove or
// replace any of them meanwhile, so the path stays that of this directory.
type openedDir struct {
	path    string // without links
	handles []windows.Handle
}

func (d *openedDir) close() {
	for _, h := range d.handles {
		_ = windows.CloseHandle(h) // opened for reading only
	}
}

// handle is that of the directory itself.
func (d *openedDir) handle() windows.Handle { return d.handles[len(d.handles)-1] }

// at is the path of a name in the directory.
func (d *openedDir) at(name string) string { return filepath.Join(d.path, name) }

// maxLinks is how many symbolic links and junctions are followed in one path.
const maxLinks = 16

// openDir opens a directory name by name. Missing directories are created with the mode; with mode 0
// they are an error. A link must belong to a trusted user, or to the owner of the directory that it is
// in: every user can create links and directories below the root of a drive.
func openDir(name string, mode fs.FileMode) (*openedDir, error) {
	d, rest, err := openVolume(name)
	for links := 0; err == nil && len(rest) > 0; {
		next := d.at(rest[0])
		var h windows.Handle
		h, err = openEntry(next)
		if errors.Is(err, fs.ErrNotExist) && mode != 0 {
			if err = createDir(next, mode, len(rest) == 1); err == nil {
				h, err = openEntry(next)
			}
		}
		if err != nil {
			break
		}
		var to string
		switch to, err = readLink(next, h, d.handle()); {
		case err != nil:
			_ = windows.CloseHandle(h) // the first error matters
		case to == "":
			d.path, d.handles, rest = next, append(d.handles, h), rest[1:]
			err = checkDir(next, h)
		default:
			_ = windows.CloseHandle(h) // opened for reading only
			if links++; links > maxLinks {
				err = fmt.Errorf("%s: too many symbolic links", name)
				break
			}
			d.close()
			d, rest, err = openVolume(strings.Join(append([]string{to}, rest[1:]...), `\`))
		}
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// openVolume opens the root of the drive or share of a path, and returns the names below it.
func openVolume(name string) (*openedDir, []string, error) {
	name, err := filepath.Abs(name) // also without dots and spaces at its end, as Windows reads it
	if err != nil {
		return &openedDir{}, nil, err
	}
	root := filepath.VolumeName(name) + `\`
	h, err := openEntry(root)
	if err != nil {
		return &openedDir{}, nil, err
	}
	names := strings.FieldsFunc(strings.TrimPrefix(name, root), func(r rune) bool { return r == '\\' })
	return &openedDir{path: root, handles: []windows.Handle{h}}, names, nil
}

// openEntry opens a file or directory, or a link itself. While it is open, no program can rename or
// remove it.
func openEntry(name string) (windows.Handle, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	rights := uint32(windows.FILE_LIST_DIRECTORY | windows.FILE_READ_ATTRIBUTES | windows.READ_CONTROL)
	for begun := time.Now(); ; {
		h, err := windows.CreateFile(path, rights, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil,
			windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
		switch {
		case err == nil:
			return h, nil
		case errors.Is(err, windows.ERROR_ACCESS_DENIED) && rights&windows.FILE_LIST_DIRECTORY != 0:
			// A user may pass through a directory without the right to list it.
			rights = windows.FILE_READ_ATTRIBUTES
		case errors.Is(err, windows.ERROR_SHARING_VIOLATION) && time.Since(begun) < sharingLimit:
			time.Sleep(sharingPause)
		default:
			return 0, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

func attributesOf(h windows.Handle) (uint32, error) {
	var info windows.ByHandleFileInformation
	err := windows.GetFileInformationByHandle(h, &info)
	return info.FileAttributes, err
}

func checkDir(name string, h windows.Handle) error {
	attributes, err := attributesOf(h)
	if err == nil && attributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 {
		err = fmt.Errorf("%s exists, but it is not a directory", name)
	}
	return err
}

// readLink returns where the symbolic link or junction of that name points to, which is open, and so
// is its directory. It returns nothing for other files and directories.
func readLink(name string, h, dir windows.Handle) (string, error) {
	attributes, err := attributesOf(h)
	if err != nil || attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT == 0 {
		return "", err
	}
	to, err := os.Readlink(name)
	if errors.Is(err, fs.ErrNotExist) { // as of a file that a cloud or a deduplication stores
		return "", nil
	}
	if err != nil {
		return "", err
	}
	owner, err := ownerOf(h)
	if err != nil {
		return "", err
	}
	if !isTrusted(owner) {
		if above, err := ownerOf(dir); err != nil || !owner.Equals(above) {
			return "", problem.New(fmt.Errorf("%s is a link that belongs to another user (%s)", name, owner),
				"remove the link, or use another directory")
		}
	}
	if to = localPath(to); !filepath.IsAbs(to) {
		to = filepath.Join(filepath.Dir(name), to)
	}
	return to, nil
}

func ownerOf(h windows.Handle) (*windows.SID, error) {
	d, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return nil, fmt.Errorf("reading an owner: %w", err)
	}
	owner, _, err := d.Owner()
	if err == nil && owner == nil {
		err = errors.New("reading an owner: there is none")
	}
	return owner, err
}

// createDir creates a directory. Only the last one of a path can be one in which all users may write.
func createDir(name string, mode fs.FileMode, isLast bool) error {
	if !isLast {
		mode &^= 0o022
	}
	access, err := newDescriptor(mode, true)
	if err != nil {
		return err
	}
	path, err := windows.UTF16PtrFromString(name)
	if err == nil {
		err = windows.CreateDirectory(path, newAttributes(access))
	}
	if err != nil && !errors.Is(err, windows.ERROR_ALREADY_EXISTS) {
		return explainWriteError(name, &fs.PathError{Op: "mkdir", Path: name, Err: err})
	}
	return nil
}

// makeDirs creates a directory and those above it. Existing ones are not changed.
func makeDirs(name string, mode fs.FileMode) error {
	d, err := openDir(name, mode)
	if err == nil {
		d.close()
	}
	return err
}

// openTarget opens the directory of a file, and returns the file's name in it. A symbolic link at the
// end of the path is followed; what it names need not exist.
func openTarget(name string, mode fs.FileMode) (*openedDir, string, error) {
	for range maxLinks {
		d, base, err := openParent(name, mode)
		if err != nil {
			return nil, "", err
		}
		h, err := openEntry(d.at(base))
		if err != nil { // what does not exist is created, and other errors are those of the write
			return d, base, nil
		}
		to, err := readLink(d.at(base), h, d.handle())
		_ = windows.CloseHandle(h) // opened for reading only
		if err == nil && to == "" {
			return d, base, nil
		}
		d.close()
		if err != nil {
			return nil, "", err
		}
		name = to
	}
	return nil, "", fmt.Errorf("%s: too many symbolic links", name)
}

// openParent opens the directory of a file, and returns the file's name in it.
func openParent(name string, mode fs.FileMode) (*openedDir, string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, "", err
	}
	d, err := openDir(filepath.Dir(name), mode)
	return d, filepath.Base(name), err
}

// finalPath is the path that Windows itself uses for what is open: with long names in their own case,
// and without links, substituted drives and the like.
func finalPath(h windows.Handle) (string, error) {
	size := uint32(windows.MAX_PATH)
	for {
		buffer := make([]uint16, size)
		n, err := windows.GetFinalPathNameByHandle(h, &buffer[0], size, 0)
		if err != nil {
			return "", fmt.Errorf("reading a path: %w", err)
		}
		if n < size {
			name := windows.UTF16ToString(buffer[:n])
			if share, ok := strings.CutPrefix(name, `\\?\UNC\`); ok {
				return `\\` + share, nil
			}
			return strings.TrimPrefix(name, `\\?\`), nil
		}
		size = n + 1
	}
}
