package nodes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// inotifyInstances is how many inotify instances root may have at once. A node takes about twenty, and to this machine all of
// them are root's; its own limit, usually 128, ends the sixth node's systemd.
const inotifyInstances = 4096

// raiseInotifyLimit raises that limit, and says so, where it is lower. It stays raised: other clusters may rely on it.
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
