package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// Memory is a Store in memory, for dry runs and tests.
type Memory struct {
	mu    sync.Mutex
	files map[string][]byte
}

// Copy is a copy of another store. A preview writes to it and leaves the other store alone.
func Copy(from Store) (*Memory, error) {
	m := &Memory{files: map[string][]byte{}}
	for _, name := range []string{entries, values} {
		data, err := from.Load(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the journal: %w", err)
		}
		m.files[name] = data
	}
	return m, nil
}

// Load reads a whole file.
func (m *Memory) Load(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return append([]byte(nil), data...), nil
}

// Append adds to a file.
func (m *Memory) Append(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string][]byte{}
	}
	m.files[name] = append(m.files[name], data...)
	return nil
}

// Replace writes a whole file.
func (m *Memory) Replace(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = append([]byte(nil), data...)
	return nil
}

// Clear removes everything.
func (m *Memory) Clear() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = nil
	return nil
}
