package harvest

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"strings"

	"spate/internal/result"
)

// csvTable is a CSV table being read: LMDeploy's, one result per row, or GenAI-Perf's and AIPerf's, one
// metric per row.
type csvTable struct {
	header []string
	line   int
	metric bool         // rows are metrics
	result result.Entry // of the rows so far, when they are metrics
	blank  int          // empty lines since the latest row
}

const lmdeployHeader = "backend,dataset_name,sharegpt_output_len,"

// beginTable recognises a header line.
func beginTable(text string) *csvTable {
	switch {
	case strings.HasPrefix(text, lmdeployHeader):
		return &csvTable{header: splitCSV(text)}
	case strings.HasPrefix(text, "Metric,avg,"):
		t := &csvTable{header: splitCSV(text), metric: true}
		t.result.Format = result.FormatGenAIPerfCSV
		if strings.HasPrefix(text, "Metric,avg,min,max,p1,") || strings.HasSuffix(text, ",std") {
			t.result.Format = result.FormatAIPerfCSV
		}
		return t
	}
	return nil
}

func splitCSV(text string) []string {
	r := csv.NewReader(strings.NewReader(text))
	r.LazyQuotes = true
	fields, err := r.Read()
	if err != nil {
		return nil
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

// inTable begins, continues or ends a CSV table.
func (s *scanner) inTable(text string, line int) bool {
	if t := beginTable(text); t != nil {
		if s.table != nil && !s.table.metric && !t.metric {
			return true // the header again, from a file that was appended to
		}
		s.endAll(line)
		t.line = line
		t.result.Source = result.Source{File: s.file, Line: line}
		s.table = t
		return true
	}
	t := s.table
	if t == nil {
		return false
	}
	if text == "" {
		if t.blank++; t.blank > 1 || !t.metric {
			s.endTable()
		}
		return true
	}
	if !t.metric {
		return s.csvResult(t, text, line)
	}
	if t.header != nil && text == "Metric,Value" {
		t.header = []string{"Metric", "avg"}
		return true
	}
	fields := splitCSV(text)
	if len(fields) < 2 || len(fields) > len(t.header) || !csvMetric(&t.result, t.header, fields) {
		s.endTable()
		return false
	}
	t.blank = 0
	t.result.Source.EndLine = line
	return true
}

var csvMetricName = regexp.MustCompile(`^([A-Za-z][\w \-/]*?)(?: \(([^)]*)\))?$`)

// csvMetric takes a row of statistics; it reports whether it is one.
func csvMetric(r *result.Entry, header, fields []string) bool {
	m := csvMetricName.FindStringSubmatch(fields[0])
	if m == nil {
		return false
	}
	metric := strings.ReplaceAll(strings.ToLower(m[1]), " ", "_")
	numbers := 0
	for i := 1; i < len(fields); i++ {
		value := strings.ReplaceAll(fields[i], ",", "")
		if !printed.MatchString(value) {
			if value != "" && !printedWord.MatchString(value) && value != "N/A" {
				return false
			}
			continue
		}
		numbers++
		nvidiaFigure(r, metric, header[i], m[2], result.NewPrinted("", value, ""))
	}
	return numbers > 0
}

func (s *scanner) endTable() {
	t := s.table
	s.table = nil
	if t == nil || !t.metric {
		return
	}
	if len(t.result.Metrics) == 0 {
		s.problem(t.line, result.Truncated, "CSV table without rows")
		return
	}
	s.keep(t.result)
}

// csvResult takes a row of LMDeploy's table.
func (s *scanner) csvResult(t *csvTable, text string, line int) bool {
	fields := splitCSV(text)
	if len(fields) < 2 || strings.Contains(fields[0], " ") {
		s.endTable()
		return false
	}
	if len(fields) != len(t.header) {
		s.problem(line, result.Damaged, fmt.Sprintf("row of %d fields under a header of %d", len(fields), len(t.header)))
		return true
	}
	r := result.Entry{Source: result.Source{File: s.file, Line: line, EndLine: line}, Format: result.FormatLMDeployCSV}
	for i, name := range t.header {
		csvField(&r, s.file, name, fields[i], line)
	}
	last := t
	s.table = nil
	s.keep(r)
	s.table = last
	return true
}

func csvField(r *result.Entry, file, name, value string, line int) {
	if value == "" || value == "None" {
		return
	}
	if fact, ok := servingContext[name]; ok {
		r.Context.Propose(result.Fact{Name: fact, Value: printedValue(value), From: "file: " + name, Line: line})
		if name != "backend" && name != "request_rate" {
			return
		}
	}
	key, from := name, ""
	if strings.HasSuffix(name, "_e2e_latency_ms") {
		key, from = strings.Replace(name, "_e2e_latency_ms", "_e2el_ms", 1), name
	}
	word := !printed.MatchString(value)
	if word && name != "backend" && name != "request_rate" && !printedWord.MatchString(value) {
		r.Problems = append(r.Problems, result.Problem{File: file, Line: line, Kind: result.Damaged, Text: fmt.Sprintf("column %s has %q where a number belongs", name, result.Shorten(value, 40))})
		return
	}
	r.Metrics.Set(result.NewPrinted(key, value, from))
}
