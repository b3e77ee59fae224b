package command

import "github.com/holdfast-go/holdfast/cmd/internal/stores"

// makes lists the commands that make less, or more, than the last directory.
var makes = map[string]stores.Making{
	"holdfast ls": stores.MakesNone, "holdfast show": stores.MakesNone, "holdfast watch": stores.Awaits, "holdfast serve": stores.Awaits, "holdfast break": stores.MakesNone, "holdfast sweep": stores.MakesNone,
	"holdfast ask": stores.MakesNone, "holdfast leader": stores.MakesNone, "holdfast history": stores.MakesNone, "holdfast resize": stores.MakesNone,
	"holdfast renew": stores.MakesNone, "holdfast renew help-keep": stores.MakesNone, "holdfast unlock": stores.MakesNone,
	"holdfast checkpoint get": stores.MakesNone, "holdfast checkpoint ls": stores.MakesNone, "holdfast checkpoint watch": stores.Awaits,
	"holdfast checkpoint export": stores.MakesNone, "holdfast checkpoint history": stores.MakesNone, "holdfast checkpoint rm": stores.MakesNone,
	"holdfast get": stores.MakesNone, "holdfast object get": stores.MakesNone, "holdfast object stat": stores.MakesNone, "holdfast object ls": stores.MakesNone, "holdfast object reservations": stores.MakesNone, "holdfast object sweep": stores.MakesNone,
	"holdfast commit-log read": stores.MakesNone, "holdfast commit-log latest": stores.MakesNone, "holdfast commit-log trim": stores.MakesNone,
	"holdfast item put": stores.MakesNone, "holdfast item get": stores.MakesNone, "holdfast item rm": stores.MakesNone, "holdfast item ls": stores.MakesNone,
	"holdfast item sweep": stores.MakesNone, "holdfast item verify": stores.MakesNone,
	"holdfast init": stores.MakesAll, "holdfast item init": stores.MakesAll,
}

// reads lists the commands that only show what is there. They may read a directory of another
// user, who decides what they show.
var reads = map[string]bool{
	"holdfast ls": true, "holdfast show": true, "holdfast watch": true, "holdfast serve": true, "holdfast leader": true, "holdfast history": true,
	"holdfast get": true, "holdfast object get": true, "holdfast object stat": true, "holdfast object ls": true, "holdfast commit-log read": true, "holdfast commit-log latest": true,
	"holdfast item get": true, "holdfast item ls": true, "holdfast item verify": true,
}
