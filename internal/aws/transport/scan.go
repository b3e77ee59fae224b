package transport

// A decoder makes of three bytes a structure of a hundred and more. So the documents
// are counted while they are read: what a scan lets pass costs a decoder at most a few
// megabytes. A scan does not check that a document is well formed.

// xmlScan counts the elements of a document of XML.
type xmlScan struct {
	elements, depth int
	length          int  // of the tag or text that it is in
	inTag           bool // and not in the text between two
	quote           byte // that an attribute began with, or 0
	first, last     byte // of the tag so far; 0 before there is one
}

func (s *xmlScan) scan(p []byte) error {
	for _, c := range p {
		s.length++
		switch {
		case !s.inTag && c == '<':
			*s = xmlScan{elements: s.elements + 1, depth: s.depth, inTag: true}
			if s.elements > MaxElements {
				return damaged("it has more than %d elements", MaxElements)
			}
		case !s.inTag:
			if s.length > MaxXMLText {
				return damaged("it has a text of more than %d bytes", MaxXMLText)
			}
		case s.length > MaxTag:
			return damaged("it has a tag of more than %d bytes", MaxTag)
		case s.quote != 0:
			if c == s.quote {
				s.quote = 0
			}
		case c == '>':
			switch {
			case s.first == '/':
				s.depth--
			case s.first != '?' && s.first != '!' && s.last != '/':
				s.depth++
			}
			if s.depth > MaxXMLDepth {
				return damaged("its elements are nested more than %d deep", MaxXMLDepth)
			}
			s.inTag, s.length = false, 0
		default:
			if s.first == 0 {
				s.first = c
			}
			s.last = c
			if (c == '"' || c == '\'') && s.first != '!' {
				s.quote = c
			}
		}
	}
	return nil
}

// jsonScan counts the values of a document of JSON.
type jsonScan struct {
	values, depth   int
	limit           int // of values
	inText, escaped bool
}

func (s *jsonScan) scan(p []byte) error {
	for _, c := range p {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped = c == '\\'
			s.inText = c != '"'
		case c == '"':
			s.inText = true
		case c == '{' || c == '[':
			s.values++
			if s.depth++; s.depth > MaxJSONDepth {
				return damaged("its values are nested more than %d deep", MaxJSONDepth)
			}
		case c == '}' || c == ']':
			s.depth--
		case c == ',':
			s.values++
		}
	}
	if s.values > s.limit {
		return damaged("it has more than %d values", s.limit)
	}
	return nil
}
