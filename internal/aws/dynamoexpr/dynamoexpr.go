// Package dynamoexpr parses the expressions of DynamoDB: conditions, updates and projections. It
// accepts the syntax in the documentation of DynamoDB, and refuses all other syntax.
package dynamoexpr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Step is one step of a path: the name of an attribute, or an index of a list.
type Step struct {
	Name  string // if empty, the step is Index
	Index int
}

// Path is the path to an attribute. The first step is the name of the attribute.
type Path []Step

// Node is a condition or an operand. Op is the kind of the node:
//
//	"path"    the attribute at Path
//	"value"   the value of the placeholder Name
//	"call"    the function Name of Args
//	"+" "-" "=" "<>" "<" "<=" ">" ">=" "AND" "OR"   of two Args
//	"NOT"     of one
//	"BETWEEN" of three, and "IN" of two and more
type Node struct {
	Op   string
	Name string
	Path Path
	Args []Node
}

// Action is an action of an update.
type Action struct {
	Kind string // SET, REMOVE, ADD or DELETE
	Path Path   // the attribute that the action changes
	Node Node   // the new value; empty for REMOVE
	Text string // text of the action, without its kind
}

// Attributes returns the names of the attributes in n.
func (n Node) Attributes() []string {
	var all []string
	if n.Op == "path" {
		all = append(all, n.Path[0].Name)
	}
	for _, arg := range n.Args {
		all = append(all, arg.Attributes()...)
	}
	return all
}

// A Parser parses the expressions of one request.
type Parser struct {
	Names map[string]string // names in place of the placeholders (#x)

	// Used has the placeholders of names (#x) and values (:x) that the expressions contain.
	Used map[string]bool

	text   string
	tokens []token
	depth  int
}

// maxText is the longest expression that DynamoDB takes, in bytes.
const maxText = 4 << 10

// maxDepth bounds how deep parentheses lie in each other.
const maxDepth = 100

// Condition parses a condition. Filters and key conditions are conditions, too.
func (p *Parser) Condition(text string) (n Node, err error) {
	err = p.parse("condition", text, func() { n = p.or() })
	return n, err
}

// Update parses an update.
func (p *Parser) Update(text string) (actions []Action, err error) {
	err = p.parse("update", text, func() {
		seen := map[string]bool{}
		for first := true; first || len(p.tokens) > 0; first = false {
			kind := strings.ToUpper(p.next().text)
			if !slices.Contains(Kinds, kind) {
				p.fail("it does not begin with SET, REMOVE, ADD or DELETE")
			}
			if seen[kind] {
				p.fail("it has %s twice", kind)
			}
			seen[kind] = true
			for more := true; more; more = p.accept(",") {
				actions = append(actions, p.action(kind))
			}
		}
	})
	return actions, err
}

// Kinds are the kinds of actions, in the order of DynamoDB's documentation.
var Kinds = []string{"SET", "REMOVE", "ADD", "DELETE"}

// Projection parses a list of paths.
func (p *Parser) Projection(text string) (paths []Path, err error) {
	err = p.parse("projection", text, func() {
		for more := true; more; more = p.accept(",") {
			paths = append(paths, p.path(p.next()))
		}
	})
	return paths, err
}

// errSyntax is what the parser panics with.
type errSyntax struct{ error }

func (p *Parser) fail(format string, args ...any) {
	panic(errSyntax{fmt.Errorf(format, args...)})
}

func (p *Parser) parse(what, text string, f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			wrong, ok := r.(errSyntax)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("the %s %.200q: %w", what, text, wrong.error)
		}
	}()
	if len(text) > maxText {
		p.fail("it has %d bytes, at most %d are allowed", len(text), maxText)
	}
	p.text, p.depth = text, 0
	if p.Used == nil {
		p.Used = make(map[string]bool)
	}
	if p.tokens, err = tokenize(text); err != nil {
		p.fail("%w", err)
	}
	f()
	if len(p.tokens) > 0 {
		p.fail("%q was not expected", p.tokens[0].text)
	}
	return nil
}

// token is a word, a placeholder or a sign.
type token struct {
	text       string
	start, end int
}

// word reports whether it is a word or the placeholder of a name.
func (t token) word() bool { return t.text[0] == '#' || isWord(t.text[0]) }

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

var errCharacter = errors.New("it has a character that no expression can have")

func tokenize(text string) (all []token, err error) {
	for i := 0; i < len(text); {
		start := i
		c := text[i]
		i++
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case c == '#' || c == ':' || isWord(c):
			for i < len(text) && isWord(text[i]) {
				i++
			}
			if i == start+1 && !isWord(c) {
				return nil, fmt.Errorf("%c without a name", c)
			}
		case c == '<' && i < len(text) && (text[i] == '>' || text[i] == '='), c == '>' && i < len(text) && text[i] == '=':
			i++
		case strings.IndexByte("()[],.=<>+-", c) >= 0:
		default:
			return nil, errCharacter
		}
		all = append(all, token{text[start:i], start, i})
	}
	return all, nil
}

func (p *Parser) next() token {
	if len(p.tokens) == 0 {
		p.fail("it ends too early")
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return t
}

// accept takes the next token if it is this one.
func (p *Parser) accept(text string) bool {
	if len(p.tokens) == 0 || !strings.EqualFold(p.tokens[0].text, text) {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *Parser) expect(text string) {
	if !p.accept(text) {
		p.fail("%s is missing", text)
	}
}

// nested calls f inside of parentheses that are open already.
func (p *Parser) nested(f func() Node) Node {
	if p.depth++; p.depth > maxDepth {
		p.fail("its parentheses are nested more than %d deep", maxDepth)
	}
	n := f()
	p.depth--
	return n
}

func (p *Parser) action(kind string) Action {
	if len(p.tokens) == 0 {
		p.fail("it ends too early")
	}
	start := p.tokens[0].start
	before := p.tokens
	a := Action{Kind: kind, Path: p.path(p.next())}
	switch kind {
	case "SET":
		p.expect("=")
		a.Node = p.operand()
		for _, op := range []string{"+", "-"} {
			if p.accept(op) {
				a.Node = Node{Op: op, Args: []Node{a.Node, p.operand()}}
				break
			}
		}
	case "ADD", "DELETE":
		if a.Node = p.operand(); a.Node.Op != "value" {
			p.fail("%s takes a value", kind)
		}
	}
	last := before[len(before)-len(p.tokens)-1]
	a.Text = p.text[start:last.end]
	return a
}

func (p *Parser) or() Node {
	return p.chain("OR", func() Node { return p.chain("AND", p.not) })
}

// chain parses operands with a word between them.
func (p *Parser) chain(op string, operand func() Node) Node {
	n := operand()
	for p.accept(op) {
		n = Node{Op: op, Args: []Node{n, operand()}}
	}
	return n
}

func (p *Parser) not() Node {
	if p.accept("NOT") {
		return Node{Op: "NOT", Args: []Node{p.nested(p.not)}}
	}
	return p.primary()
}

var comparisons = []string{"=", "<>", "<", "<=", ">", ">="}

// conditions are the functions that are conditions; size is an operand.
var conditions = []string{"attribute_exists", "attribute_not_exists", "attribute_type", "begins_with", "contains"}

func (p *Parser) primary() Node {
	if p.accept("(") {
		n := p.nested(p.or)
		p.expect(")")
		return n
	}
	left := p.operand()
	if left.Op == "call" && slices.Contains(conditions, left.Name) {
		return left
	}
	switch {
	case p.accept("BETWEEN"):
		low := p.operand()
		p.expect("AND")
		return Node{Op: "BETWEEN", Args: []Node{left, low, p.operand()}}
	case p.accept("IN"):
		n := Node{Op: "IN", Args: []Node{left}}
		p.expect("(")
		for more := true; more; more = p.accept(",") {
			n.Args = append(n.Args, p.operand())
		}
		p.expect(")")
		return n
	}
	sign := p.next().text
	if !slices.Contains(comparisons, sign) {
		p.fail("%q is not a comparison", sign)
	}
	return Node{Op: sign, Args: []Node{left, p.operand()}}
}

// functions are all functions by the number of their arguments.
var functions = map[string]int{
	"attribute_exists": 1, "attribute_not_exists": 1, "attribute_type": 2, "begins_with": 2, "contains": 2, "size": 1,
	"if_not_exists": 2, "list_append": 2,
}

func (p *Parser) operand() Node {
	t := p.next()
	switch {
	case t.text[0] == ':':
		p.Used[t.text] = true
		return Node{Op: "value", Name: t.text}
	case t.text[0] != '#' && t.word() && p.accept("("):
		n := Node{Op: "call", Name: t.text}
		p.nested(func() Node {
			for more := true; more; more = p.accept(",") {
				n.Args = append(n.Args, p.operand())
			}
			return n
		})
		p.expect(")")
		if want, ok := functions[n.Name]; !ok || want != len(n.Args) {
			p.fail("there is no function %s with %d operands", n.Name, len(n.Args))
		}
		return n
	case t.text == "(":
		n := p.nested(p.operand)
		p.expect(")")
		return n
	}
	return Node{Op: "path", Path: p.path(t)}
}

// path parses a path whose first token is t.
func (p *Parser) path(t token) Path {
	path := Path{p.name(t)}
	for {
		switch {
		case p.accept("."):
			path = append(path, p.name(p.next()))
		case p.accept("["):
			i, err := strconv.Atoi(p.next().text)
			if err != nil {
				p.fail("an index is not a number")
			}
			p.expect("]")
			path = append(path, Step{Index: i})
		default:
			return path
		}
	}
}

// name returns the name that a token is or stands for.
func (p *Parser) name(t token) Step {
	if !t.word() {
		p.fail("%q is not the name of an attribute", t.text)
	}
	if t.text[0] != '#' {
		return Step{Name: t.text}
	}
	name, ok := p.Names[t.text]
	if !ok || name == "" {
		p.fail("there is no name %s", t.text)
	}
	p.Used[t.text] = true
	return Step{Name: name}
}
