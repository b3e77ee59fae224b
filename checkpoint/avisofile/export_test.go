package avisofile

// Rewrite decodes a state file and encodes it again.
func Rewrite(b []byte) ([]byte, error) {
	s, err := decode(b)
	if err != nil {
		return nil, err
	}
	return encode(s), nil
}

// RewriteFences decodes a fence file and encodes it again.
func RewriteFences(b []byte) ([]byte, error) {
	f, err := decodeFences("fence", b)
	if err != nil {
		return nil, err
	}
	return f.encode()
}
