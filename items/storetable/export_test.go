package storetable

// SetPage makes scans hold at most n names.
func (t *Table) SetPage(n int) { t.page = n }
