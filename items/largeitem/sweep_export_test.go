package largeitem

const (
	MaxFailures = maxFailures
	MaxJSON     = maxJSON
)

// ObjectName is the name of an object in the layout of this package.
func ObjectName(s Schema, key Key, attr, id string) string {
	name, err := DefaultLayout().name(s, Content{Table: s.Table, Key: key, Attr: attr, ID: id})
	if err != nil {
		panic(err)
	}
	return name
}
