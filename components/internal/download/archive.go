package download

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// extractMembers writes members of a gzipped tar archive to dir, as SaveMembers describes.
func extractMembers(archive string, members map[string]string, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	missing := maps.Clone(members)
	for entries := tar.NewReader(unzipped); len(missing) > 0; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			names := slices.Sorted(maps.Keys(missing))
			return fmt.Errorf("it does not contain %s", strings.Join(names, ", "))
		}
		if err != nil {
			return err
		}
		name := path.Clean(entry.Name)
		to, wanted := missing[name]
		if !wanted {
			continue
		}
		if entry.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s is not a regular file", name)
		}
		if err := writeProgram(filepath.Join(dir, to), entries); err != nil {
			return err
		}
		delete(missing, name)
	}
	return nil
}

func writeProgram(name string, from io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
