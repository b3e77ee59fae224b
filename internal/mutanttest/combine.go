package mutanttest

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// chooser is the variable of the environment with the number of the mutant that a
// binary with many of them is to be. Without it the binary has no fault.
const chooser = "MUTANTTEST_MUTANT"

// chooserFile is the file that is added to each package with mutants.
const chooserFile = "mutanttest_number.go"

// combine builds the tests of the package in dir once, with all of the mutants that can
// be distinguished when the tests run: those inside of one function. The function gets a
// copy for each, and the environment decides which copy is called. combine returns the
// binary and the numbers of the mutants in it, counted from 1 as in the environment.
func combine(ctx context.Context, dir, scratch string, mutants []Mutant) (bin string, in map[int]bool, err error) {
	files := map[string][]int{}
	for i, m := range mutants {
		files[m.File] = append(files[m.File], i+1)
	}
	in, changed := map[int]bool{}, map[string]string{}
	for name, numbers := range files {
		source, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", nil, err
		}
		combined, pkg, combinable, err := withCopies(string(source), mutants, numbers)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(combinable) == 0 {
			continue
		}
		changed[filepath.Join(dir, name)] = combined
		changed[filepath.Join(dir, filepath.Dir(name), chooserFile)] = fmt.Sprintf(
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar mutanttestNumber, _ = strconv.Atoi(os.Getenv(%q))\n", pkg, chooser)
		for _, n := range combinable {
			in[n] = true
		}
	}
	if len(in) == 0 {
		return "", nil, nil
	}
	bin, err = build(ctx, dir, scratch, changed)
	return bin, in, err
}

// withCopies returns the source of one file in which each function with mutants chooses
// between copies of itself. It returns the name of the package, too, and those of the
// numbered mutants for which that was possible.
func withCopies(source string, mutants []Mutant, numbers []int) (combined, pkg string, in []int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil, err
	}
	at := func(pos token.Pos) int { return set.Position(pos).Offset }
	copies := map[*ast.FuncDecl][]int{}
	for _, n := range numbers {
		m := mutants[n-1]
		if _, err := replaced(source, m); err != nil {
			continue // it is reported when the mutant is built alone
		}
		begin := strings.Index(source, m.Old)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Body != nil && f.Name.Name != "init" && f.Type.TypeParams == nil && at(f.Body.Lbrace) < begin && begin+len(m.Old) <= at(f.Body.Rbrace) {
				copies[f] = append(copies[f], n)
				in = append(in, n)
			}
		}
	}
	var head, tail strings.Builder
	done := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || copies[f] == nil {
			continue
		}
		begin, name, nameEnd, end := at(f.Pos()), at(f.Name.Pos()), at(f.Name.End()), at(f.End())
		// The function itself is called by a new one of its name, which has a name for each
		// parameter, whether the function has one or not.
		head.WriteString(source[done:begin])
		whole := source[begin:end]
		copyOf := func(n int) string { return fmt.Sprintf("%sMutant%d", f.Name.Name, n) }
		rename := func(text string, n int) string {
			return text[:name-begin] + copyOf(n) + text[nameEnd-begin:]
		}
		head.WriteString(rename(whole, 0))
		for _, n := range copies[f] {
			m := mutants[n-1]
			// The name is before the replaced text, which is in the body.
			fmt.Fprintf(&tail, "\n%s\n", rename(strings.Replace(whole, m.Old, m.New, 1), n))
		}
		tail.WriteString(dispatcher(f, copies[f], copyOf, func(n ast.Node) string { return source[at(n.Pos()):at(n.End())] }))
		done = end
	}
	return head.String() + source[done:] + tail.String(), file.Name.Name, in, nil
}

// dispatcher returns a function like f that calls the copy which the environment names.
func dispatcher(f *ast.FuncDecl, numbers []int, copyOf func(int) string, text func(ast.Node) string) string {
	receiver, prefix := "", ""
	if f.Recv != nil {
		receiver, prefix = "(mutanttestReceiver "+text(f.Recv.List[0].Type)+") ", "mutanttestReceiver."
	}
	var params, args []string
	for _, field := range f.Type.Params.List {
		for range max(len(field.Names), 1) {
			arg := fmt.Sprint("mutanttestArgument", len(args))
			params = append(params, arg+" "+text(field.Type))
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	var results []string
	if f.Type.Results != nil {
		for _, field := range f.Type.Results.List {
			for range max(len(field.Names), 1) {
				results = append(results, text(field.Type))
			}
		}
	}
	call := func(n int) string { return prefix + copyOf(n) + "(" + strings.Join(args, ", ") + ")" }
	var b strings.Builder
	fmt.Fprintf(&b, "\nfunc %s%s(%s) (%s) {\n\tswitch mutanttestNumber {\n", receiver, f.Name.Name, strings.Join(params, ", "), strings.Join(results, ", "))
	for _, n := range append(numbers, 0) {
		label := fmt.Sprintf("case %d", n)
		if n == 0 {
			label = "default"
		}
		result := "return "
		if len(results) == 0 {
			result = ""
		}
		fmt.Fprintf(&b, "\t%s:\n\t\t%s%s\n", label, result, call(n))
	}
	b.WriteString("\t}\n}\n")
	return b.String()
}
