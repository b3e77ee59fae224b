package reserve_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestOneReservationForAllTries: a write that is sent again after a lost request, on a
// store that checks the condition, too, is sent under the reservation that it has. A new
// one would have to wait for it.
func TestOneReservationForAllTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := new(memstore.Store)
		r, err := reserve.New(reserve.NewStoreTable(st), nil)
		if err != nil {
			t.Fatal(err)
		}
		var fault objecttest.Fault
		b := objecttest.NewFaulty(membucket.New(), func(c objecttest.Call) objecttest.Fault {
			if c.Op != store.OpPut && c.Op != store.OpDelete {
				return objecttest.Pass
			}
			f := fault
			fault = objecttest.Pass
			return f
		})
		c, err := object.New(b, &object.Options{Reserver: r})
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range []objecttest.Fault{objecttest.Fail, objecttest.Lose} {
			start := time.Now()
			info, err := c.Put(t.Context(), "k", strings.NewReader("1"), &object.WriteOptions{IfAbsent: true})
			if err != nil {
				t.Fatal(err)
			}
			fault = of
			if info, err = c.Put(t.Context(), "k", strings.NewReader("2"), &object.WriteOptions{Base: &info}); err != nil {
				t.Errorf("%v: put: %v", of, err)
			}
			fault = of
			if err := c.Delete(t.Context(), "k", &object.WriteOptions{Base: &info}); err != nil && of == objecttest.Fail {
				t.Errorf("%v: delete: %v", of, err)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("%v: it took %v", of, took)
			}
		}
	})
}
