package table_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a writer adds a file from before the horizon", "table.go",
			"		if number(file) < t.state.Horizon {\n", "		if false {\n",
			"TestSlowWriter"},
		{"a compactor commits in spite of the fence of the next one", "table.go",
			"		if t.state.Fence > token {\n			return commit{}, errFenced\n		}\n		// Only", "		// Only",
			"TestStoppedCompactor"},
		{"a sweep does not stop at the horizon", "table.go",
			"		if number(file) >= s.Horizon || slices", "		if slices",
			"TestUploadDuringCompaction"},
		{"a reader does not begin again", "table.go",
			"		if !errors.Is(err, store.ErrNotFound) {\n			return rows, err\n", "		if true {\n			return rows, err\n",
			"TestReaderOfAnOldSnapshot"},
	})
}
