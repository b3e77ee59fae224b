// Package checkpoint keeps positions in streams: how far a worker has come, saved
// so that they survive crashes and power cuts, and never go backwards, whoever
// writes them.
package checkpoint
