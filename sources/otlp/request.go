package otlp

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"crowsnest/sources/internal/jsonwalk"
)

// Limits of a record and a resource. Decoding a message can take more than thirty times its size, so each record is
// decoded alone.
const (
	maxRecord   = 256 << 10
	maxResource = 64 << 10
	maxNesting  = 64 // largest nesting of messages; a value inside a list is two to three levels deeper than the list
)

// visitor receives the parts of a request in their order. The bytes belong to the request.
type visitor struct {
	resource func(encoded []byte) error // called before the records of a resource
	record   func(encoded []byte) error
}

// encoding is one of the two encodings of OTLP.
type encoding struct {
	contentType string
	// visit visits the resources and the records of a request. An error means that v returned it, or that the request
	// is malformed.
	visit     func(request []byte, v visitor) error
	unmarshal func(encoded []byte, m proto.Message) error
}

var protobuf = &encoding{
	contentType: "application/x-protobuf", visit: visitProtobuf,
	unmarshal: proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal,
}

var jsonEncoding = &encoding{contentType: "application/json", visit: visitJSON, unmarshal: unmarshalJSON}

// Numbers of fields in ExportLogsServiceRequest, ResourceLogs and ScopeLogs.
const (
	fieldResourceLogs = 1
	fieldResource     = 1
	fieldScopeLogs    = 2
	fieldLogRecords   = 2
)

func visitProtobuf(request []byte, v visitor) error {
	return eachField(request, fieldResourceLogs, func(logs []byte) error {
		var resource []byte
		if err := eachField(logs, fieldResource, func(b []byte) error { resource = b; return nil }); err != nil {
			return err
		}
		if err := v.resource(resource); err != nil {
			return err
		}
		return eachField(logs, fieldScopeLogs, func(scope []byte) error {
			return eachField(scope, fieldLogRecords, v.record)
		})
	})
}

// eachField calls read with each value of a field that holds messages.
func eachField(message []byte, field protowire.Number, read func(value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("the protobuf message is damaged: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return fmt.Errorf("the protobuf message is damaged: %w", protowire.ParseError(n))
		}
		if number == field {
			value, size := protowire.ConsumeBytes(message)
			if kind != protowire.BytesType || size < 0 {
				return errors.New("the protobuf message is not an OTLP request for logs")
			}
			if err := read(value); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
}

// visitJSON accepts the names of fields in camel case, as OTLP demands, and as in the protobuf schema.
func visitJSON(request []byte, v visitor) error {
	if d := newDecoder(request); d.PeekKind() == 0 {
		return errors.New("the JSON text is damaged")
	} else if err := d.SkipValue(); err != nil {
		return fmt.Errorf("the JSON text is damaged: %w", err)
	} else if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("the JSON object is followed by more data")
	}
	return eachListed(request, "resourceLogs", "resource_logs", func(logs []byte) error {
		resource := []byte("{}")
		d := newDecoder(logs)
		err := jsonwalk.Members(d, func(name string) error {
			value, err := d.ReadValue()
			if name == "resource" {
				resource = bytes.Clone(value)
			}
			return err
		})
		if err == nil {
			err = v.resource(resource)
		}
		if err != nil {
			return err
		}
		return eachListed(logs, "scopeLogs", "scope_logs", func(scope []byte) error {
			return eachListed(scope, "logRecords", "log_records", v.record)
		})
	})
}

// eachListed calls read with each element of an array. The array is the member of an object with one of two names.
func eachListed(object []byte, camel, snake string, read func(element []byte) error) error {
	d := newDecoder(object)
	if d.PeekKind() != '{' {
		return fmt.Errorf("the JSON text is not an OTLP request for logs: what should have %s is not an object", camel)
	}
	return jsonwalk.Members(d, func(name string) error {
		if name != camel && name != snake {
			return d.SkipValue()
		}
		if kind := d.PeekKind(); kind != '[' && kind != 'n' {
			return fmt.Errorf("the JSON text is not an OTLP request for logs: %s is not a list", camel)
		}
		return jsonwalk.Elements(d, func() error {
			element, err := d.ReadValue()
			if err != nil {
				return err
			}
			return read(element)
		})
	})
}

func newDecoder(text []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), jsonwalk.NewOptions()...)
}

// unmarshalJSON decodes a record or a resource. OTLP writes IDs in hexadecimal and enums only as numbers, unlike
// protojson. No rule uses these fields, so they are omitted.
func unmarshalJSON(encoded []byte, m proto.Message) error {
	d := newDecoder(encoded)
	if d.PeekKind() != '{' {
		return errors.New("it is not an object")
	}
	kept := []byte("{")
	err := jsonwalk.Members(d, func(name string) error {
		value, err := d.ReadValue()
		switch name {
		case "traceId", "spanId", "trace_id", "span_id", "severityNumber", "severity_number":
			return err
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept, _ = jsontext.AppendQuote(kept, name) // ignore the error, because invalid UTF-8 is replaced
		kept = append(append(kept, ':'), value...)
		return err
	})
	if err != nil {
		return fmt.Errorf("the JSON text is damaged: %w", err)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxNesting}.Unmarshal(append(kept, '}'), m)
}
