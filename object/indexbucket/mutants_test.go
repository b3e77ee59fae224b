package indexbucket_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"new metadata removes the body", "../internal/indexed/write.go",
			"			if now.File != e.File {\n", "			if now.File != \"\" {\n",
			"TestNothingLeft"},
		{"the sweep removes bodies that are named", "../internal/indexed/sweep.go",
			"		named.add(e.File)\n", "		_ = e\n",
			"TestSweep"},
		{"the sweep removes what it did not make", "../internal/indexed/sweep.go",
			"safefile.IsRandom(name) && ", "",
			"TestSweep"},
		{"the age of bodies does not grow during a sweep", "../internal/indexed/sweep.go",
			"began.Elapsed()*101/100 }\n", "0*began.Elapsed() }\n",
			"TestSlowSweep"},
		{"a put may take longer than the grace", "../internal/indexed/write.go",
			"		if start.Elapsed() > b.orphanAge/2 {\n", "		if false {\n",
			"TestSlowPut"},
		{"a body of another size is the object's", "indexbucket.go",
			"	if r.Info.Size != size {\n", "	if false {\n",
			"TestDamagedBody"},
	})
}
