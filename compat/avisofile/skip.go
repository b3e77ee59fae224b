package avisofile

// skip skips one value of any kind and depth.
func (p *parser) skip() error {
	var open []byte // the opening brackets without a closing one yet
	for {
		more, err := p.skipStart(&open)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		// A value has ended, and with it the containers in which it was the last.
		for {
			if len(open) == 0 {
				return nil
			}
			c, last := p.peek(), open[len(open)-1]
			if c == ',' {
				p.i++
				if last == '{' {
					if err := p.skipName(); err != nil {
						return err
					}
				}
				break
			}
			if c != last+2 { // in ASCII a closing bracket is its opening one plus 2
				return p.fail("a comma or a closing bracket is missing")
			}
			p.i++
			open = open[:len(open)-1]
		}
	}
}

// skipStart skips a scalar, an empty container, or the start of a container up to its
// first value; in the last case more is true.
func (p *parser) skipStart(open *[]byte) (more bool, err error) {
	switch c := p.peek(); c {
	case '{', '[':
		p.i++
		if p.peek() == c+2 {
			p.i++
			return false, nil
		}
		*open = append(*open, c)
		if c == '{' {
			return true, p.skipName()
		}
		return true, nil
	case '"':
		return false, p.skipString()
	case 't':
		return false, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return false, p.word("null")
	default:
		return false, p.skipNumber()
	}
}

// skipName skips a name and its colon.
func (p *parser) skipName() error {
	if p.peek() != '"' {
		return p.fail("a name is missing")
	}
	if err := p.skipString(); err != nil {
		return err
	}
	return p.colon()
}

// word skips a literal.
func (p *parser) word(w string) error {
	for i := range len(w) {
		if p.i >= len(p.b) || p.b[p.i] != w[i] {
			return p.fail("the word %q is expected here", w)
		}
		p.i++
	}
	return nil
}

// skipString skips a string.
func (p *parser) skipString() error {
	for p.i++; p.i < len(p.b); {
		switch c := p.b[p.i]; {
		case c == '"':
			p.i++
			return nil
		case c < 0x20:
			return p.fail("a control character in a string")
		case c == '\\':
			if err := p.skipEscape(); err != nil {
				return err
			}
		default:
			p.i++
		}
	}
	return p.fail("a string has no end")
}

// skipEscape skips a backslash and its escape.
func (p *parser) skipEscape() error {
	p.i++
	if p.i >= len(p.b) {
		return p.fail("a string has no end")
	}
	switch p.b[p.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		p.i++
		return nil
	case 'u':
	default:
		return p.fail("an unknown escape in a string")
	}
	p.i++
	for range 4 {
		if p.i >= len(p.b) {
			return p.fail("a string has no end")
		}
		switch c := p.b[p.i]; {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
		default:
			return p.fail("an escape in a string lacks a hexadecimal digit")
		}
		p.i++
	}
	return nil
}

// skipNumber skips a number.
func (p *parser) skipNumber() error {
	if p.i < len(p.b) && p.b[p.i] == '-' {
		p.i++
	}
	if p.i < len(p.b) && p.b[p.i] == '0' {
		p.i++
	} else if err := p.skipDigits(); err != nil {
		return err
	}
	if p.i < len(p.b) && p.b[p.i] == '.' {
		p.i++
		if err := p.skipDigits(); err != nil {
			return err
		}
	}
	if p.i < len(p.b) && (p.b[p.i] == 'e' || p.b[p.i] == 'E') {
		p.i++
		if p.i < len(p.b) && (p.b[p.i] == '+' || p.b[p.i] == '-') {
			p.i++
		}
		return p.skipDigits()
	}
	return nil
}

// skipDigits skips one decimal digit or more.
func (p *parser) skipDigits() error {
	start := p.i
	for p.i < len(p.b) && '0' <= p.b[p.i] && p.b[p.i] <= '9' {
		p.i++
	}
	if p.i == start {
		return p.fail("a value is missing")
	}
	return nil
}
