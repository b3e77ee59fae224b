package leaselocks_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// Each mutant is a fault that a test has to find.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a lease of a fraction of a millisecond is over at once", "leaselocks.go", "(duration + time.Millisecond - 1)", "(duration)", "TestStatement"},
		{"each call raises the generation", "leaselocks.go", "WHEN excluded.holder THEN generation ELSE", "WHEN excluded.holder THEN generation + 1 ELSE", "TestStatement"},
		{"a lease is free in its last millisecond", "leaselocks.go", "OR expiration < ?4", "OR expiration <= ?4", "TestStatement"},
		{"a commit that failed was not applied", "leaselocks.go", "	if committing && problem != nil {\n", "	if committing && problem == nil {\n", "TestErrorsOfStatements"},
		{"a broken connection is used again", "leaselocks.go", "	if problem != nil && !isOver {\n", "	if problem != nil && isOver {\n", "TestErrorsOfStatements"},
		{"the outcome is that of a kind of errors", "leaselocks.go", "	return store.MarkUnknown(explained)\n", "	return explained\n", "TestErrorsOfStatements"},
		{"a transaction stays open", "leaselocks.go", "	_, problem := conn.ExecContext(ctx, \"ROLLBACK\")\n", "	var problem error\n", "TestErrorsOfStatements"},
		{"the commit ignores the end of the context", "leaselocks.go", "		err = store.CheckContext(ctx)\n", "", "TestContextEndsBeforeTheCommit"},
		{"a generation of 0 is a token", "leaselocks.go", "n < 1", "n < 0", "TestErrorsOfStatements"},
	})
}
