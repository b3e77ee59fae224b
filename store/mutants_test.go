package store_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"a decorator hands out the store below", "wrap.go",
			"			return ok\n		}\n	}\n	return false\n", "			return ok\n		}\n	}\n	return asTarget(s.inner, target)\n",
			"TestAsPastADecorator"},
		{"a decorator lacks an ability", "abilities.go",
			`		abilityOf("Lister", func(s *intercepted, a Lister) Lister { return interceptedLister{s, a} }, OpList),`, "",
			"TestInterceptPassesEverything"},
		{"a cause looks like an answer", "errors.go", "	if ended == nil || cause == ended {\n		return ended\n", "	if ended == nil || cause != nil {\n		return cause\n", "TestCause"},
		{"a cause with an outcome looks like an answer", "errors.go", "	return errors.As(err, new(interface{ Outcome() Outcome })) || ", "	return ", "TestCause"},
		{"a prefix does not check keys", "prefix.go",
			"		// a key outside the prefix.\n		if err := CheckKey(op.Key); err != nil {", "		// a key outside the prefix.\n		if err := error(nil); err != nil {",
			"TestPrefixChecksFirst"},
		{"a prefix shows in errors", "prefix.go",
			"		*op = joined\n		return trimKey(err, below)\n", "		*op = joined\n		return err\n",
			"TestPrefixErrors"},
		{"the traits do not name the prefix", "traits.go",
			"	t.Prefix += d.below\n", "",
			"TestPrefixTraits"},
		{"an unknown outcome is tried again as a conflict", "update.go",
			"if !errors.Is(err, ErrConflict) || OutcomeOf(err) != NotApplied {", "if !errors.Is(err, ErrConflict) {",
			"TestUpdateUnknownConflict"},
		{"a failed read leaves a write in doubt", "errors.go",
			"		case e.Op.Read():\n", "		case e == nil:\n",
			"TestInDoubt"},
		{"what is joined to a write decides its outcome", "errors.go",
			"			return o, ok || e.Err != nil\n", "			return o, ok\n",
			"TestInDoubt"},
	})
}
