package report

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// Libraries tell more than warnings from the first verbosity on, and never more than at the last: above
// it the client of the API server writes out whole requests and answers, the secrets of tokens among them.
const (
	libraryLevel     = 4
	lastLibraryLevel = 7
)

// Log tells the libraries that this program is made of how much to log: a level, and
// "pattern=N,..." for single source files.
func Log(level int, files string) error {
	var set flag.FlagSet
	klog.InitFlags(&set)
	if level < libraryLevel {
		level = 0 // so far the level is about what we tell ourselves
	}
	if err := set.Set("v", strconv.Itoa(min(level, lastLibraryLevel))); err != nil {
		return fmt.Errorf("flag -v: %w", err)
	}
	if err := set.Set("vmodule", capped(files)); err != nil {
		return fmt.Errorf("flag --vmodule: %w", err)
	}
	return nil
}

// capped is "pattern=N,..." without levels above the last. What has another form is left for klog to refuse.
func capped(files string) string {
	settings := strings.Split(files, ",")
	for i, one := range settings {
		pattern, level, _ := strings.Cut(one, "=")
		if n, err := strconv.Atoi(level); err == nil && n > lastLibraryLevel {
			settings[i] = pattern + "=" + strconv.Itoa(lastLibraryLevel)
		}
	}
	return strings.Join(settings, ",")
}
