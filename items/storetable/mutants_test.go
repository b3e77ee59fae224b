package storetable_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a lost delete is not settled", "storetable.go",
			"		found, err = store.ResolveDelete(settling, t.st, register, v, err)\n", "		_ = settling\n",
			"TestOutcomes"},
		{"a write that lost is reported as made", "storetable.go",
			"		return true, nil\n	}\n	return false, err\n", "		return false, nil\n	}\n	return false, err\n",
			"TestDecidesAgain"},
		{"a copied register is an item", "items.go",
			"	if err == nil && t.register(key) != register {\n", "	if false {\n",
			"TestForeignRegisters"},
		{"a scan ends with its first page", "items.go",
			"			names, more = names[:n], true\n", "			names = names[:n]\n",
			"TestScanPages"},
		{"another key is taken for the table's", "storetable.go",
			"	if is.Partition != want.Partition || is.Sort != want.Sort {\n", "	if is.Partition != want.Partition && is.Sort != want.Sort {\n",
			"TestCreate"},
		{"a copy of a table passes for the table", "storetable.go",
			`ID: d.ID + "@" + traits.ID + "/" + traits.Prefix`, `ID: d.ID + traits.ID[:0]`,
			"TestCopies"},
	})
}
