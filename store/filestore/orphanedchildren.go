package filestore

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// maxOrphans is how many processes Orphans names.
const maxOrphans = 20

// OrphanedChildren looks for the children of a process that has ended. A child that inherited a
// [Store.PresenceFile] keeps the announcement of the process alive. OrphanedChildren reports
// whether there are such children. It returns at most 20 of their process ids. If the system
// does not show a process id to this user, the result does not contain it.
func (s *Store) OrphanedChildren(ctx context.Context, announcement string) (pids []int, any bool) {
	name, id, ok := s.parse(announcement)
	if !ok || ctx.Err() != nil || s.begin() != nil {
		return nil, false
	}
	defer s.end()
	if _, heirs := s.liveness(name, id); !heirs {
		return nil, false
	}
	file, err := s.root.Stat(aliveDir + "/" + name)
	if err != nil {
		return nil, true
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // none where there is no such directory
	for _, link := range links {
		// The name first: to stat each file that is open could wait for a network.
		if to, err := os.Readlink(link); err != nil || filepath.Base(to) != name {
			continue
		}
		info, err := os.Stat(link)
		if err != nil || !os.SameFile(info, file) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err == nil && !slices.Contains(pids, pid) && len(pids) < maxOrphans {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, true
}
