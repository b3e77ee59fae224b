package dynamotable_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a read need not be consistent", "dynamotable.go",
			"Key: toKey(s, key), ConsistentRead: aws.Bool(true)}", "Key: toKey(s, key)}",
			"TestRequests"},
		{"a batch need not be consistent", "scan.go",
			"types.KeysAndAttributes{ConsistentRead: aws.Bool(true), ", "types.KeysAndAttributes{",
			"TestRequests"},
		{"a scan need not be consistent", "scan.go",
			"TableName: &t.calls.Name, ConsistentRead: aws.Bool(true)}", "TableName: &t.calls.Name}",
			"TestRequests"},
		{"a write is repeated", "dynamotable.go",
			"t.calls.Call, method", "t.calls.Repeat, method",
			"TestLostWrites"},
		{"a refusal without an item says that there is none", "dynamotable.go",
			"		e.HasCurrent = t.shownItem.Load()\n", "		e.HasCurrent = true\n",
			"TestServerThatOmitsItems"},
		{"an answer to a write that cannot be read is a failure", "dynamotable.go",
			"store.MarkUnknown(err)", "store.MarkNotApplied(err)",
			"TestUnknownType"},
		{"a look that was lost leaves the write in doubt", "dynamotable.go",
			"t.failed(store.OpPut, key, store.MarkNotApplied(err))", "t.failed(store.OpPut, key, err)",
			"TestSchema"},
		{"what the server did not answer for is absent", "scan.go",
			"len(out.Responses) == 0 && len(later) < len(keys)", "false",
			"TestAbsentOnlyIfAnswered"},
		{"an item that was not requested counts", "scan.go",
			"case !keys[key] || later[key]:", "case false:",
			"TestAbsentOnlyIfAnswered"},
		{"what is put off is requested for ever", "scan.go",
			"if try >= dynamocall.Tries {", "if try >= 1000*dynamocall.Tries {",
			"TestPutOff"},
		{"the caller's condition stands beside ours", "expression.go",
			"add(\"(%s)\", own.Expression)", "add(\"%s\", own.Expression)",
			"TestExpressions"},
		{"the caller's expression may write the key", "expression.go",
			"case written == e.schema.Partition.Name || written == e.schema.Sort.Name:", "case false:",
			"TestBadExpressions"},
		{"the caller's expression may write what is set", "expression.go",
			"case set || slices.Contains(c.Remove, written):", "case set && false:",
			"TestBadExpressions"},
		{"a placeholder may stand for two values", "expression.go",
			"!reflect.DeepEqual(other, v)", "!reflect.DeepEqual(other, other)",
			"TestBadExpressions"},
		{"a value of an unknown type is that of its neighbour", "values.go",
			"if _, twice := o[v]; twice {", "if _, twice := o[v]; twice && false {",
			"TestUnknownType"},
		{"a global table is like any other", "schema.go",
			"if len(d.Replicas) > 0 && ", "if false && ",
			"TestSchema"},
	})
}
