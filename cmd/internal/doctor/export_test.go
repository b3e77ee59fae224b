package doctor

import "time"

// Quick returns options for what does not depend on luck, with time for a busy machine.
func Quick() *Options { return &Options{rounds: 1, samples: 4, stepTimeout: 5 * time.Minute} }

// Patient returns options with time for a busy machine.
func Patient() *Options { return &Options{stepTimeout: 5 * time.Minute} }

// On returns options with which the directory is on a file system of this kind, and each
// process appends so often.
func (o DirectoryOptions) On(kind func(dir string) (kind string, local bool, err error), appends int) *DirectoryOptions {
	o.kind, o.appends = kind, appends
	return &o
}
