package logmodel

// world explores the steps from a state.
type world struct {
	procs   int
	numbers uint8 // no segment beyond this number is made
	ids     id    // no more states than these are made
	minLen  uint8 // entries of a segment before it may be sealed
	maxLen  uint8 // entries of a segment after its base
	removal bool  // once, the directory may be moved away and the register be created again
	stuck   bool  // the removal of a segment may fail
	mutant  Mutant

	bad  string // what was violated
	emit func(state)
}

func (w *world) is(m Mutant) bool { return w.mutant&m != 0 }

// expand emits the states after each possible step.
func (w *world) expand(s state) {
	for i := range w.procs {
		if s.proc[i] != (proc{}) {
			crashed := s
			crashed.proc[i] = proc{}
			w.emit(crashed)
		}
		w.step(s, i)
	}
	if w.removal && !s.removed && s.ids < w.ids {
		w.emit(removed(s))
	}
}

// removed moves the directory away and creates the register again. Earlier promises are
// void for processes that start later.
func removed(s state) state {
	s.removed = true
	for n := range s.name {
		if s.name[n] != 0 {
			s.setName(uint8(n), 0)
		}
	}
	s.ids++
	s.prev[s.ids], s.number[s.ids] = 0, 1
	s.setName(1, s.alloc(1, s.ids))
	s.seen = [maxIDs + 1]id{1: s.ids}
	s.floor = 1
	for i := range s.proc {
		p := &s.proc[i]
		p.floor = 0
		if p.step == listed || p.step == openHighest || p.step == openBefore {
			p.step, p.other, p.cursor, p.always, p.ever = list, 0, 0, 0, 0
		}
	}
	return s
}

// finish ends what a process was asked for.
func (w *world) finish(s state, i int) {
	p := &s.proc[i]
	*p = proc{file: p.file, known: p.known}
	w.emit(s)
}

// restart makes a process forget its segment, and read the log again.
func (w *world) restart(s state, i int) {
	p := &s.proc[i]
	*p = proc{step: list, doing: p.doing, base: p.base, mine: p.mine, floor: p.floor, old: p.old}
	if p.doing == nothing {
		w.finish(s, i)
		return
	}
	w.emit(s)
}

// observe checks a state that a process learned, and notes it as promised.
func (w *world) observe(s *state, i int, x id) {
	p := &s.proc[i]
	if s.removed && !s.descends(x) {
		if p.doing == putting && p.old {
			w.bad = "a write succeeded on a log that was removed"
		}
		return // after the removal by hand, nothing is promised about what is read there
	}
	switch {
	case s.void&(1<<x) != 0:
		w.bad = "a refused write was seen"
	case s.number[x] < p.floor:
		w.bad = "an older state was read than one that was known before"
	}
	for a := x; a != 0; a = s.prev[a] {
		n := s.number[a]
		if s.seen[n] != 0 && s.seen[n] != a {
			w.bad = "two states have one number"
		}
		s.seen[n] = a
	}
	s.floor = max(s.floor, s.number[x])
}

// descends reports whether a state belongs to the newest log.
func (s *state) descends(x id) bool {
	for s.prev[x] != 0 {
		x = s.prev[x]
	}
	return s.seen[1] == x
}

// step emits the states after the next step of process i.
func (w *world) step(s state, i int) {
	p := &s.proc[i]
	switch p.step {
	case idle:
		w.start(s, i)
	case read:
		w.read(s, i)
	case appendValue, checkName, foldAgain, checkSeal, appendSeal:
		w.write(s, i)
	case openNext, checkBeforeLink, linkNext, checkAfterLink, walkDown, unlinkUp, unlinkDown, openLinked, checkAfterOpen:
		w.next(s, i)
	default:
		w.cold(s, i)
	}
}

// start begins a read or a write, or a seal where the segment is long enough, with
// its first step: to begin earlier would only promise less.
func (w *world) start(s state, i int) {
	p := s.proc[i]
	for _, d := range []doing{getting, putting} {
		if d == putting && s.ids == w.ids {
			continue
		}
		t := s
		t.proc[i] = proc{step: read, doing: d, file: p.file, known: p.known, floor: s.floor}
		if p.file == 0 {
			t.proc[i].step = list
		}
		w.step(t, i)
	}
	if p.file != 0 && s.inode[p.file-1].len >= w.minLen && s.inode[p.file-1].number < w.numbers {
		t := s
		t.proc[i].step = checkSeal
		w.step(t, i)
	}
}

// read is GET with a segment that is open.
func (w *world) read(s state, i int) {
	p := &s.proc[i]
	last, sealed := s.fold(p.file)
	p.known = last
	switch {
	case sealed:
		p.step = openNext
		w.emit(s)
	case p.doing == getting, p.base != 0 && p.base != last:
		// A write that finds another state than its own is a conflict that carries that
		// state.
		p.doing = getting
		w.observe(&s, i, last)
		w.finish(s, i)
	default:
		p.base, p.step = last, appendValue
		w.emit(s)
	}
}

// write is PUT from 2, and SEAL.
func (w *world) write(s state, i int) {
	p := &s.proc[i]
	switch p.step {
	case appendValue:
		w.appendValue(s, i)
		return
	case checkName:
		if !w.is(NoNameCheck) && !s.named(p.file) {
			p.step = foldAgain
			w.emit(s)
			return
		}
		w.succeed(s, i)
		return
	case foldAgain:
		if _, sealed := s.fold(p.file); sealed || w.is(NoSecondFold) {
			w.succeed(s, i)
			return
		}
		if !s.removed {
			w.bad = "an outcome is unknown for no reason"
		}
		w.restart(s, i) // unknown; the process resolves the write
		return
	case checkSeal:
		if !w.is(NoSealCheck) && !s.named(p.file) {
			w.restart(s, i)
			return
		}
		p.step = appendSeal
	case appendSeal:
		if !w.add(&s, p.file, seal|p.known) {
			return
		}
		last, sealed := s.fold(p.file)
		p.step = idle
		if p.known = last; sealed {
			p.step = openNext
		}
	}
	w.emit(s)
}

func (w *world) appendValue(s state, i int) {
	p := &s.proc[i]
	if s.ids == w.ids {
		return
	}
	s.ids++
	x := s.ids
	s.prev[x], s.number[x] = p.base, s.number[p.base]+1
	if !w.add(&s, p.file, x) {
		return
	}
	last, sealed := s.fold(p.file)
	p.known, p.old = last, s.removed
	switch {
	case last == x, w.is(VoidSucceeds):
		p.mine, p.step = x, checkName
	case sealed:
		s.void |= 1 << x
		p.step = openNext
	default:
		s.void |= 1 << x
		p.step = read
	}
	w.emit(s)
}

// succeed reports to a process that its write was applied.
func (w *world) succeed(s state, i int) {
	p := &s.proc[i]
	for x := id(1); x <= s.ids; x++ {
		if s.acked&(1<<x) != 0 && s.prev[x] == p.base && s.prev[x] != 0 {
			w.bad = "two writes succeeded on one state"
		}
	}
	if s.number[p.base] < p.floor {
		w.bad = "a write succeeded on an old state"
	}
	s.acked |= 1 << p.mine
	w.observe(&s, i, p.mine)
	w.finish(s, i)
}

// next is NEXT.
func (w *world) next(s state, i int) {
	p := &s.proc[i]
	number := s.inode[p.file-1].number
	switch p.step {
	case openNext:
		if number == w.numbers {
			return
		}
		p.step, p.era = checkBeforeLink, s.removed
		if p.other = s.name[number+1]; p.other != 0 {
			p.step = checkAfterOpen
		}
	case checkBeforeLink:
		// The look is in the directory that was opened; one that was moved away
		// keeps its names.
		here := p.era == s.inode[p.file-1].era && (p.era != s.removed || s.named(p.file))
		if !w.is(NoCheckBeforeLink) && !here {
			w.restart(s, i)
			return
		}
		p.step = linkNext
	case linkNext:
		p.linked = s.name[number+1] == 0 && p.era == s.removed
		if p.linked {
			n := s.alloc(number+1, p.known)
			if n == 0 {
				return
			}
			s.setName(number+1, n)
		}
		p.step = checkAfterLink
	case checkAfterLink:
		if !w.is(NoCheckAfterLink) && !s.named(p.file) {
			if w.is(UnlinkLeftover) && p.linked {
				s.setName(number+1, 0)
			}
			w.restart(s, i)
			return
		}
		p.step = openLinked
		if p.linked {
			p.cursor = number - 1
			if w.is(PruneOwn) {
				p.cursor = number
			}
			p.step = walkDown
		}
	case walkDown:
		w.prune(s, i)
		return
	case unlinkUp:
		if t := s; w.sticks(&t, i, p.cursor) {
			q := &t.proc[i]
			q.cursor++
			if !w.is(PruneOn) || q.cursor >= number {
				q.step, q.cursor = openLinked, 0
			}
			w.emit(t)
		}
		w.unlink(&s, i)
		p.cursor++
		if p.cursor >= number && !(w.is(PruneOwn) && p.cursor == number) {
			p.step, p.cursor = openLinked, 0
		}
	case unlinkDown:
		w.unlink(&s, i)
		if p.cursor--; p.cursor == 0 || s.name[p.cursor] == 0 {
			p.step, p.cursor = openLinked, 0
		}
	case openLinked:
		if p.other = s.name[number+1]; p.other == 0 {
			w.restart(s, i)
			return
		}
		p.step = checkAfterOpen
	case checkAfterOpen:
		if !w.is(NoCheckAfterOpen|PruneOwn) && !s.named(p.file) {
			w.restart(s, i)
			return
		}
		w.adopt(s, i)
		return
	}
	w.emit(s)
}

// sticks reports whether the removal of a segment may fail.
func (w *world) sticks(s *state, i int, number uint8) bool {
	return w.stuck && s.name[number] != 0 && s.proc[i].era == s.removed
}

// unlink removes the name at the cursor, in the directory that was opened.
func (w *world) unlink(s *state, i int) {
	if p := &s.proc[i]; p.era == s.removed {
		s.setName(p.cursor, 0)
	}
}

// prune walks down while there are segments, one look at a time.
func (w *world) prune(s state, i int) {
	p := &s.proc[i]
	if p.cursor > 0 && s.name[p.cursor] != 0 {
		if w.is(PruneDown) {
			p.step = unlinkDown
		} else {
			p.cursor--
		}
		w.emit(s)
		return
	}
	p.cursor++
	p.step = unlinkUp
	number := s.inode[p.file-1].number
	if p.cursor >= number && !(w.is(PruneOwn) && p.cursor == number) {
		p.step, p.cursor = openLinked, 0
	}
	w.emit(s)
}

// adopt makes the segment that was looked at the one that a process believes in.
func (w *world) adopt(s state, i int) {
	p := &s.proc[i]
	p.file, p.other = p.other, 0
	p.known = s.inode[p.file-1].base
	p.linked, p.era = false, false
	p.step = read
	if p.doing == nothing {
		w.finish(s, i)
		return
	}
	w.emit(s)
}

// cold is COLD.
func (w *world) cold(s state, i int) {
	p := &s.proc[i]
	switch p.step {
	case list:
		p.step, p.era = listed, s.removed
		p.always, p.ever = 0, 0
		for n := range s.name {
			if s.name[n] != 0 {
				p.always |= 1 << n
			}
		}
		p.ever = p.always
	case listed:
		w.listed(s, i)
		return
	case openHighest:
		if p.other = s.name[p.cursor]; p.other == 0 {
			w.restart(s, i)
			return
		}
		switch {
		case w.is(NoPredecessor):
			p.step = sweep
		case p.cursor == 1:
			p.step = checkFirst
		default:
			p.step = openBefore
		}
	case checkFirst:
		if !w.is(NoFirstCheck) && !s.named(p.other) {
			w.restart(s, i)
			return
		}
		p.step = sweep
	case openBefore:
		if p.file = s.name[p.cursor-1]; p.file == 0 {
			w.restart(s, i)
			return
		}
		p.step = readBefore
	case readBefore:
		if !s.continues(p.other, p.file) {
			w.restart(s, i)
			return
		}
		p.file = 0
		p.step = sweep
	case sweep:
		for n := range p.cursor {
			if n+1 >= p.cursor || s.name[n] == 0 || p.era != s.removed {
				continue
			}
			t := s
			t.setName(n, 0)
			w.emit(t)
			if !w.sticks(&s, i, n) {
				return
			}
			if !w.is(PruneOn) {
				break
			}
		}
		p.cursor = 0
		w.adopt(s, i)
		return
	}
	w.emit(s)
}

// listed ends a listing: it shows what was there all the time, and any of what was
// there at some time. The highest number that it shows is what matters.
func (w *world) listed(s state, i int) {
	p := &s.proc[i]
	always, ever := p.always, p.ever
	p.always, p.ever = 0, 0
	if always == 0 {
		if w.is(EmptyIsAbsent) {
			t := s
			if !s.removed {
				w.bad = "a register that exists was called absent"
			}
			w.finish(t, i)
		}
		w.restart(s, i)
	}
	for n := uint8(maxNumber); n > 0; n-- {
		if ever&(1<<n) != 0 {
			t := s
			t.proc[i].cursor = n
			t.proc[i].step = openHighest
			w.emit(t)
		}
		if always&(1<<n) != 0 {
			return
		}
	}
}

// check looks at a state as a whole.
func (w *world) check(s *state) {
	if w.bad == "" && !s.findable() {
		w.bad = "the newest segment cannot be found"
	}
}

// findable reports whether a process without memory would find the newest segment, if no
// other process did anything meanwhile.
func (s *state) findable() bool {
	for n := uint8(maxNumber); n > 1; n-- {
		if high := s.name[n]; high != 0 {
			before := s.name[n-1]
			if before == 0 {
				return false
			}
			return s.continues(high, before)
		}
	}
	return s.name[1] != 0
}
