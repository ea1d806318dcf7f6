// Package flag holds every flag's name, default and help, once. What a flag means
// is for cli to know.
package flag

// Name is a flag's name without dashes.
type Name string
