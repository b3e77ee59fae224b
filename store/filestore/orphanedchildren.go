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

// OrphanedChildren reports whether the process that made an announcement has ended while
// children of it, which inherited a [Store.PresenceFile], keep the announcement alive. It
// returns their process ids, at most 20, as far as the system shows them to this user.
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
