package certstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/mutanttest"
)

// Each mutant is a fault that a test has to find.
func TestMutants(t *testing.T) {
	mutanttest.Run(t, []mutanttest.Mutant{
		{"the token of a later holder refuses nothing", "values.go", "r.Token > token", "r.Token > token && token == 0", "TestLateWrites"},
		{"a lost lease refuses nothing", "lock.go", "return name, l.guard.Token(), l.guard.Err()", "return name, l.guard.Token(), nil", "TestLateWrites"},
		{"tokens of different locks are compared", "values.go", " && r.Lock == lock", "", "TestTwoLocksOfOneKey"},
		{"another goroutine of the server does not wait for Unlock", "lock.go", "other = s.locks[name]; other == nil {", "other = nil; other == nil {", "TestLostLease"},
		{"a lost lock is not taken again", "lock.go", "guard.Renew); !errors.Is(err, lease.ErrLost) {", "guard.Renew); true {", "TestRenewTakesTheLockAgain"},
		{"a lost reply of a renewal is an error", "lock.go", "retry(ctx, shortTimeout, guard.Renew)", "guard.Renew(ctx)", "TestRenewTakesTheLockAgain"},
		{"unknown fields are dropped", "record.go", "	if err := json.Unmarshal(known, &r.fields); err != nil {", "	r.fields = nil\n	if err := json.Unmarshal(known, &r.fields); err != nil {", "TestFormat"},
		{"a register that cannot be read does not exist", "values.go", "return err == nil || errors.Is(err, store.ErrCorrupt)", "return err == nil", "TestFormat"},
		{"a register of another key is accepted", "record.go", "of != name {", "of == \"\" {", "TestFormat"},
		{"a failed call is not repeated", "values.go", "|| store.Permanent(err) {", "|| true {", "TestExistsAfterFailedReads"},
		{"a lost lease is waited for", "values.go", "errors.Is(err, lease.ErrLost) || ", "", "TestLateWrites"},
		{"a lost reply leads to a second write", "values.go", "result, err = store.PutAndResolve(ctx, s.values, name, version, content)", "_, err = s.values.Put(ctx, name, version, content)", "TestLostReplyOfAnEarlierWriter"},
		{"a long key is cut inside a character", "keys.go", "!utf8.RuneStart(key[end])", "false", "TestKeys"},
		{"a long directory is not shortened", "keys.go", "len(key) > maxPlain-utf8.UTFMax", "len(key) > 1<<20", "TestKeys"},
		{"a listing shows what is beside a directory", "values.go", "!strings.HasPrefix(found, key+\"/\")", "!strings.HasPrefix(found, key)", "TestKeys"},
	})
}
