package web

import (
	"bytes"
	"html/template"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	goldtext "github.com/yuin/goldmark/text"

	"crowsnest/web/runbook"
)

// markdown renders runbooks. It omits raw HTML and addresses that a browser would execute, such as javascript:.
var markdown = sync.OnceValue(func() goldmark.Markdown { return goldmark.New(goldmark.WithExtensions(extension.Table)) })

type runbookData struct {
	Name        string
	Body        template.HTML
	RuleRunbook string // address of a runbook that the rule states
}

// runbookText returns the runbook of a rule in Markdown. It returns false if there is no such rule.
func (s *Server) runbookText(name string) (string, bool) {
	set := s.view.Rules().Set
	r := set.Rule(name)
	if r == nil {
		return "", false
	}
	text := runbook.Page(set, r)
	if strings.HasPrefix(text, "<!--") {
		_, text, _ = strings.Cut(text, "\n\n") // removes the first paragraph, which is a remark for people who edit the file
	}
	return text, true
}

func (s *Server) runbookPage(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, ok := s.runbookText(name)
	if !ok {
		s.noRule(w, name)
		return
	}
	body, err := renderMarkdown(text)
	if err != nil {
		s.opt.Log.Error().Str("rule", name).Err(err).Msg("render runbook")
		s.serveError(w, http.StatusInternalServerError, "Failed", "The runbook could not be rendered; see the log of crowsnest.")
		return
	}
	s.renderPage(w, "runbook", http.StatusOK, page{Title: "Runbook of " + name, Path: "/rules", Data: runbookData{Name: name, Body: body}})
}

// renderMarkdown returns a runbook as HTML. Links between runbooks become links to this server.
func renderMarkdown(text string) (template.HTML, error) {
	source := []byte(text)
	doc := markdown().Parser().Parse(goldtext.NewReader(source))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			link.Destination = []byte(ownLink(string(link.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := markdown().Renderer().Render(&b, source, doc); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil //nolint:gosec // goldmark escapes text and omits raw HTML and dangerous addresses
}

// ownLink returns the address on this server of a page of the runbooks.
func ownLink(destination string) string {
	name, ok := strings.CutSuffix(path.Base(destination), ".md")
	switch {
	case !ok || strings.Contains(destination, ":"):
		return destination
	case name == "README":
		return "/rules"
	}
	return "/runbooks/" + name
}

// apiRunbook returns the runbook of a rule in Markdown.
func (s *Server) apiRunbook(r *http.Request) (any, *apiError) {
	text, ok := s.runbookText(r.PathValue("name"))
	if !ok {
		return nil, notFound("no rule has this name")
	}
	return Runbook{text}, nil
}
