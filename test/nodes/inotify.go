package nodes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// inotifyInstances is the limit of inotify instances of root. A node's root needs about twenty and
// is root of this machine too; with the usual limit of 128 the systemd of the sixth node fails.
const inotifyInstances = 4096

// raiseInotifyLimit raises that limit if it is lower, and logs it. It stays raised, since other
// clusters may need it.
func raiseInotifyLimit(log func(string, ...any)) error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	have, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || have >= inotifyInstances {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(inotifyInstances)), 0o644); err != nil {
		return fmt.Errorf("raising the number of inotify instances: %w", err)
	}
	log("fs.inotify.max_user_instances: raised from %d to %d", have, inotifyInstances)
	return nil
}
