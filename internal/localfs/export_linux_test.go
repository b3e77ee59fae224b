package localfs

var Classify = classify
