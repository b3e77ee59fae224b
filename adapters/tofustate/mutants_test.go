package tofustate_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a writer replaces parts of any generation", "parts.go",
			"err == nil && base < p.Base:", "err == nil && base != p.Base:",
			"TestStoppedServer"},
		{"a writer replaces parts of its own generation", "parts.go",
			"err == nil && base < p.Base:", "err == nil && base <= p.Base:",
			"TestManyWriters"},
		{"a version is added to a record that has changed", "handler.go",
			"if rec.Generation != base {", "if rec.Generation < base {",
			"TestStoppedServer"},
		{"a late request replaces a newer state", "record.go",
			"(v.LockID == \"\" || v.LockID == now.LockID)", "v.LockID == \"\"",
			"TestProtocol"},
		{"a late request takes a lock that was released", "record.go",
			"	case slices.Contains(r.Released, info.ID):\n", "	case false:\n",
			"TestProtocol"},
		{"a slot of a version is used again", "parts.go",
			"		if used[p.Slot] {\n", "		if false {\n",
			"TestHistory"},
		{"fields that are not known are dropped", "record.go",
			"fields := maps.Clone(r.unknown)", "fields := maps.Clone(r.unknown)\n		clear(fields)",
			"TestOldRecord"},
	})
}
