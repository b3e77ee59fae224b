// Package gcstest is a small server of Google Cloud Storage within the process of a test. It obeys all
// conditions, and can limit the writes of each object as the service does.
package gcstest

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server has one bucket. It is an [http.RoundTripper], so it also works in a bubble of package synctest.
type Server struct {
	// MinPause is the shortest time between two changes of one object. The server refuses an earlier
	// change with status 429. 0 means no limit.
	MinPause time.Duration

	mu         sync.Mutex
	objects    map[string]*Object
	changed    map[string]time.Time
	generation int64
	counts     map[int]int
}

// Object is an object of a [Server].
type Object struct {
	Name               string            `json:"name"`
	Bucket             string            `json:"bucket"`
	Generation         int64             `json:"generation,string"`
	Size               int               `json:"size,string"`
	CRC32C             string            `json:"crc32c"`
	Updated            time.Time         `json:"updated"`
	ContentType        string            `json:"contentType,omitempty"`
	CacheControl       string            `json:"cacheControl,omitempty"`
	ContentDisposition string            `json:"contentDisposition,omitempty"`
	ContentEncoding    string            `json:"contentEncoding,omitempty"`
	ContentLanguage    string            `json:"contentLanguage,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`

	body []byte
}

// New returns a server without objects.
func New() *Server {
	return &Server{objects: map[string]*Object{}, changed: map[string]time.Time{}, counts: map[int]int{}, generation: 1_795_000_000_000_000}
}

// Object returns an object, or nil.
func (s *Server) Object(name string) *Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// Answers returns how many requests had this status.
func (s *Server) Answers(status int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[status]
}

// RoundTrip implements [http.RoundTripper].
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("X-Guploader-Uploadid", "test")
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.serve(w, r, body)
	var refused refusal
	if errors.As(err, &refused) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(refused))
		if refused >= 400 {
			fmt.Fprintf(w, `{"error":{"code":%d,"message":"refused"}}`, int(refused))
		}
	} else if err != nil {
		return nil, err
	}
	s.counts[w.Code]++
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// refusal is a status.
type refusal int

func (r refusal) Error() string { return strconv.Itoa(int(r)) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request, body []byte) error {
	path, query := r.URL.EscapedPath(), r.URL.Query()
	name := func(rest string) string {
		text, err := url.PathUnescape(rest)
		if err != nil {
			panic(err)
		}
		return text
	}
	if strings.HasPrefix(path, "/upload/storage/v1/b/") {
		return s.insert(w, r, query, body)
	}
	if path == "/storage/v1/b/b/o" {
		return s.list(w, query)
	}
	rest, isJSON := strings.CutPrefix(path, "/storage/v1/b/b/o/")
	switch from, to, copied := strings.Cut(rest, "/rewriteTo/b/b/o/"); {
	case isJSON && copied:
		return s.rewrite(w, query, name(from), name(to), body)
	case isJSON && r.Method == http.MethodDelete:
		key := name(rest)
		if s.objects[key] == nil {
			return refusal(http.StatusNotFound)
		}
		if err := s.change(key, query.Get("ifGenerationMatch")); err != nil {
			return err
		}
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
		return nil
	case isJSON:
		o := s.objects[name(rest)]
		switch {
		case o == nil:
			return refusal(http.StatusNotFound)
		case query.Get("ifGenerationNotMatch") == strconv.FormatInt(o.Generation, 10):
			return refusal(http.StatusNotModified)
		}
		return answer(w, o)
	}
	return s.download(w, r, name(strings.TrimPrefix(path, "/b/")))
}

func answer(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

// change checks the condition of a change, and the limit.
func (s *Server) change(key, generation string) error {
	current := int64(0)
	if o := s.objects[key]; o != nil {
		current = o.Generation
	}
	if generation != "" && generation != strconv.FormatInt(current, 10) {
		return refusal(http.StatusPreconditionFailed)
	}
	if s.MinPause > 0 && time.Since(s.changed[key]) < s.MinPause {
		return refusal(http.StatusTooManyRequests)
	}
	s.changed[key] = time.Now()
	return nil
}

func (s *Server) store(w http.ResponseWriter, o *Object) {
	s.generation++
	sum := crc32.Checksum(o.body, crc32.MakeTable(crc32.Castagnoli))
	o.CRC32C = base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
	o.Generation, o.Size, o.Updated, o.Bucket = s.generation, len(o.body), time.Now().UTC(), "b"
	s.objects[o.Name] = o
}

func (s *Server) insert(w http.ResponseWriter, r *http.Request, query url.Values, body []byte) error {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	parts := multipart.NewReader(strings.NewReader(string(body)), params["boundary"])
	o := &Object{}
	part, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(part).Decode(o)
	}
	if err == nil {
		part, err = parts.NextPart()
	}
	if err == nil {
		o.body, err = io.ReadAll(part)
	}
	if err != nil {
		return err
	}
	if err := s.change(o.Name, query.Get("ifGenerationMatch")); err != nil {
		return err
	}
	s.store(w, o)
	return answer(w, o)
}

func (s *Server) rewrite(w http.ResponseWriter, query url.Values, from, to string, body []byte) error {
	source := s.objects[from]
	if source == nil {
		return refusal(http.StatusNotFound)
	}
	if match := query.Get("ifSourceGenerationMatch"); match != "" && match != strconv.FormatInt(source.Generation, 10) {
		return refusal(http.StatusPreconditionFailed)
	}
	if err := s.change(to, query.Get("ifGenerationMatch")); err != nil {
		return err
	}
	o := *source
	var given Object
	if err := json.Unmarshal(body, &given); err == nil && given.ContentType != "" {
		o = given
		o.body = source.body
	}
	o.Name = to
	s.store(w, &o)
	return answer(w, map[string]any{"done": true, "totalBytesRewritten": strconv.Itoa(o.Size), "objectSize": strconv.Itoa(o.Size), "resource": &o})
}

func (s *Server) list(w http.ResponseWriter, query url.Values) error {
	most, _ := strconv.Atoi(query.Get("maxResults"))
	most = cmp.Or(most, 1000)
	var names []string
	for name := range s.objects {
		if strings.HasPrefix(name, query.Get("prefix")) && name >= query.Get("startOffset") && name > query.Get("pageToken") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var page struct {
		Items         []*Object `json:"items,omitempty"`
		Prefixes      []string  `json:"prefixes,omitempty"`
		NextPageToken string    `json:"nextPageToken,omitempty"`
	}
	if len(names) > most {
		names = names[:most]
		page.NextPageToken = names[most-1]
	}
	for _, name := range names {
		prefix, delimiter := query.Get("prefix"), query.Get("delimiter")
		if i := strings.Index(name[len(prefix):], delimiter); delimiter != "" && i >= 0 {
			dir := name[:len(prefix)+i+len(delimiter)]
			if !slices.Contains(page.Prefixes, dir) {
				page.Prefixes = append(page.Prefixes, dir)
			}
			continue
		}
		page.Items = append(page.Items, s.objects[name])
	}
	return answer(w, page)
}

func (s *Server) download(w http.ResponseWriter, r *http.Request, key string) error {
	o := s.objects[key]
	if o == nil {
		return refusal(http.StatusNotFound)
	}
	generation := strconv.FormatInt(o.Generation, 10)
	if match := r.Header.Get("X-Goog-If-Generation-Match"); match != "" && match != generation {
		return refusal(http.StatusPreconditionFailed)
	}
	h := w.Header()
	for name, value := range map[string]string{
		"X-Goog-Generation": generation, "X-Goog-Hash": "crc32c=" + o.CRC32C, "Content-Type": o.ContentType,
		"Cache-Control": o.CacheControl, "Content-Disposition": o.ContentDisposition, "Content-Encoding": o.ContentEncoding, "Content-Language": o.ContentLanguage,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	for name, value := range o.Metadata {
		h.Set("X-Goog-Meta-"+name, value)
	}
	if o.CacheControl == "" {
		h.Set("Cache-Control", "private, max-age=0")
	}
	http.ServeContent(w, r, "", o.Updated, strings.NewReader(string(o.body)))
	return nil
}
