// Package image builds container images from directory trees and writes them to archives.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image describes an image in an archive.
type Image struct {
	Ref        string // registry, repository and tag
	Arch       string // as Go names it
	Layers     []v1.Layer
	Entrypoint []string
	Command    []string // after the entrypoint, unless a Pod has arguments of its own
	User       string   // empty is root
}

// refAnnotation is the annotation with which containerd finds the full name of an image in an OCI
// archive.
const refAnnotation = "io.containerd.image.name"

// searchPath is the PATH in every image: the static Pods' manifests name their commands without a directory.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Layer returns the tree under dir as an uncompressed layer. All files belong to root and have the
// same time, so that equal trees are equal layers. It is uncompressed since archives are loaded
// from the local disk many times.
func Layer(dir string) (v1.Layer, error) {
	var buf bytes.Buffer
	if err := writeTree(&buf, dir); err != nil {
		return nil, fmt.Errorf("packing %s: %w", dir, err)
	}
	return static.NewLayer(buf.Bytes(), types.OCIUncompressedLayer), nil
}

// WriteArchive writes an OCI archive of the images to path. A layer that several images share is stored once.
func WriteArchive(path string, images []Image) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "layout-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, i := range images {
		img, err := i.build()
		if err != nil {
			return fmt.Errorf("building image %s: %w", i.Ref, err)
		}
		named := layout.WithAnnotations(map[string]string{refAnnotation: i.Ref})
		if err := index.AppendImage(img, named); err != nil {
			return fmt.Errorf("writing image %s: %w", i.Ref, err)
		}
	}
	return writeArchive(path, dir)
}

func (i Image) build() (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, i.Layers...)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", i.Arch
	file.Config = v1.Config{Entrypoint: i.Entrypoint, Cmd: i.Command, Env: []string{searchPath}, User: i.User, WorkingDir: "/"}
	return mutate.ConfigFile(img, file)
}

func writeArchive(path, dir string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeTree(f, dir); err != nil {
		return err
	}
	return f.Close()
}

// writeTree writes the tree in lexical order, without owners and times.
func writeTree(w io.Writer, dir string) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return writeEntry(tw, dir, path)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, dir, path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	// FileInfoHeader also sets owner and time, which must not affect the layer.
	plain := tar.Header{Typeflag: h.Typeflag, Name: name, Linkname: link, Size: h.Size, Mode: h.Mode, ModTime: time.Unix(0, 0)}
	if info.IsDir() {
		plain.Name += "/"
	}
	if err := tw.WriteHeader(&plain); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(tw, f)
	return err
}
