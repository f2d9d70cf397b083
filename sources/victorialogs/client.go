package victorialogs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"crowsnest/sources/internal/jsonwalk"
	"crowsnest/sources/internal/rangeread"
)

// overhead is the largest number of bytes that a request adds to a query.
const overhead = 128

func header(tenant string) map[string]string {
	if tenant == "" {
		return nil
	}
	account, project, _ := strings.Cut(tenant, ":")
	return map[string]string{"AccountID": account, "ProjectID": project}
}

// query requests entries in order of time, because with the parameter limit alone the server returns the newest ones.
func query(q rangeread.Query) (path string, form url.Values) {
	return "/select/logsql/query", values(timeFilter(q.From, q.To) + q.Text + " | sort by (_time) limit " + strconv.Itoa(q.Limit))
}

// values returns the parameters of a request. A cluster must not omit the entries of storage nodes that are down.
func values(query string) url.Values {
	return url.Values{"query": {query}, "allow_partial_response": {"0"}}
}

func timeFilter(from, to int64) string {
	text := func(t int64) string { return time.Unix(0, t).UTC().Format("2006-01-02T15:04:05.000000000Z") }
	return "_time:[" + text(from) + ", " + text(to) + ") "
}

func listStreams(selector string, t int64, most int) (path string, form url.Values) {
	form = values(timeFilter(t, t+1) + selector)
	form.Set("limit", strconv.Itoa(most))
	return "/select/logsql/streams", form
}

func decodeStreams(body []byte) (streams []map[string]string, err error) {
	var said struct {
		Values []struct {
			Value string `json:"value"`
		} `json:"values"`
	}
	err = json.Unmarshal(body, &said)
	for _, v := range said.Values {
		labels := map[string]string{}
		pairs, ok := parseStream([]byte(v.Value))
		if !ok {
			err = errors.Join(err, fmt.Errorf("it has the stream %q", v.Value))
		}
		for _, p := range pairs {
			labels[string(p.Name)] = string(p.Value)
		}
		streams = append(streams, labels)
	}
	return streams, err
}

// decode implements rangeread.Dialect.Decode. If VictoriaLogs fails after it has sent entries, the response ends with
// the text of an error.
func (w lineWriter) decode(a *rangeread.Answer) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(a.Body), jsonwalk.NewOptions()...)
	streams := map[string]int{}
	defer a.Sort()
	for {
		if kind := d.PeekKind(); kind != '{' {
			_, err := d.ReadToken()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil {
				err = errors.New("it has a value that is not an object")
			}
			return err
		}
		row, ok, err := a.ReadPairs(d)
		if err != nil {
			return err
		}
		a.Count++
		if !ok || !w.addRow(a, streams, row) {
			a.Bad++
		}
	}
}

// addRow adds the entry of a row. streams has the index of each stream in the response. addRow
// returns false if the row has no time or no stream.
func (w lineWriter) addRow(a *rangeread.Answer, streams map[string]int, row []rangeread.Pair) bool {
	var r record
	var name []byte
	err := errors.New("it has no time")
	for _, p := range row {
		switch string(p.Name) {
		case "_time":
			r.at, err = time.Parse(time.RFC3339Nano, string(p.Value))
		case "_stream":
			name = p.Value
		case "_msg":
			r.message = p.Value
		case "_stream_id":
		default:
			r.fields = append(r.fields, p)
		}
	}
	if err != nil || name == nil {
		return false
	}
	index, known := streams[string(name)]
	if !known {
		labels, ok := parseStream(name)
		if !ok {
			return false
		}
		index = len(a.Streams)
		a.SetStream(index, labels)
		streams[string(name)] = index
	}
	r.removeLabels(a.Streams[index].Labels)
	a.Entries = append(a.Entries, rangeread.Entry{Time: r.at.UnixNano(), Stream: index, Line: w.line(&r), Meta: r.fields})
	return true
}

// parseStream parses the labels of a stream, such as {app="a",pod="p"}, which are sorted by name.
func parseStream(text []byte) (labels []rangeread.Pair, ok bool) {
	rest, opens := strings.CutPrefix(string(text), "{")
	rest, closes := strings.CutSuffix(rest, "}")
	if !opens || !closes {
		return nil, false
	}
	for rest != "" {
		name, after, _ := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return nil, false
		}
		value, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
		labels = append(labels, rangeread.Pair{Name: []byte(name), Value: []byte(value)})
		rest = strings.TrimPrefix(after[len(quoted):], ",")
	}
	return labels, true
}

// refine sets the reason of an error response. The text of the response may repeat the query.
func refine(f *rangeread.Failure, code int, said string) {
	switch {
	case strings.HasPrefix(said, "the `query` arg length cannot exceed"):
		f.Reason = rangeread.ReasonQuery
		_, allowed, _ := strings.Cut(said, "-search.maxQueryLen=")
		allowed, _, _ = strings.Cut(allowed, " ")
		if n, err := strconv.Atoi(allowed); err == nil {
			f.Allowed = max(n-overhead, 1)
		}
	case code == http.StatusRequestEntityTooLarge || code == http.StatusRequestURITooLong:
		f.Reason = rangeread.ReasonQuery
	case strings.HasPrefix(said, "cannot parse `query` arg"):
		f.Reason = rangeread.ReasonSyntax
	case strings.HasPrefix(said, "too big time range selected"):
		f.Reason = rangeread.ReasonRange
	case strings.HasPrefix(said, "cannot execute query") && strings.Contains(said, ", since it requires more than"):
		f.Reason = rangeread.ReasonLimit // the memory for sorting the entries
	}
}
