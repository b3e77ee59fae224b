// Package tusdlock locks the uploads of tusd on any store of Holdfast.
package tusdlock
