package workload

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path"
	"strings"

	"spate/internal/call"
	"spate/internal/load/media"
	"spate/internal/rng"
)

// Media says which pictures go with random prompts, and how files of them travel.
type Media struct {
	Items   int     // to a request
	Ratio   float64 // spread of their number
	Limit   int     // most pictures
	Videos  int     // most videos
	Sizes   []media.Size
	Inline  bool // files are sent as data instead of by their address
	Message bool // audio goes into a chat message

	// Open opens a file that a row names. Rows are foreign: it decides which files may be sent. nil allows none.
	Open func(name string) (File, error)
}

var randomMMDataset = Dataset{
	Name: "random-mm", About: "random tokens with images", Exact: true, Random: true,
	open: newPictured,
	fill: func(c *Config, r *Run) {
		r.Random.fill(c)
		c.Media.Items, c.Media.Ratio = r.RandomMM.BaseItems, r.RandomMM.ItemsRatio
		c.Media.Sizes, _ = media.ParseSizes(r.RandomMM.Buckets) // checked before
		limit, _ := r.RandomMM.limits()
		c.Media.Limit, c.Media.Videos = max(0, limit["image"]), max(0, limit["video"])
	},
	check: func(r *Run, c Problems) {
		mm := &r.RandomMM
		c.Clash(!r.Chat, "dataset-name", "backend", "pictures go into chat messages: use --backend openai-chat")
		_, err := media.ParseSizes(mm.Buckets)
		c.Want(err == nil, "random-mm-bucket-config", "%v", err)
		_, err = mm.limits()
		c.Want(err == nil, "random-mm-limit-mm-per-prompt", "%v", err)
		c.Want(mm.BaseItems >= 0, "random-mm-base-items-per-request", "%d is negative", mm.BaseItems)
		c.Want(mm.ItemsRatio >= 0 && mm.ItemsRatio <= 1, "random-mm-num-mm-items-range-ratio", "%v is not between 0 and 1", mm.ItemsRatio)
		r.Random.check(r, c)
	},
}

// RandomMM configures random-mm.
type RandomMM struct {
	BaseItems      int             `json:"base_items_per_request"`
	ItemsRatio     float64         `json:"num_mm_items_range_ratio"`
	LimitPerPrompt json.RawMessage `json:"limit_mm_per_prompt,omitempty"`
	Buckets        string          `json:"bucket_config"` // a Python literal, as given
}

func (m *RandomMM) flags() []Flag {
	return []Flag{
		{Name: "random-mm-base-items-per-request", Default: "1", VLLM: true, To: &m.BaseItems, Help: "pictures and videos in each request of random-mm"},
		{Name: "random-mm-num-mm-items-range-ratio", Default: "0.0", VLLM: true, To: &m.ItemsRatio, Help: "spread of the number of pictures and videos: r draws from [n*(1-r), n*(1+r)]"},
		{Name: "random-mm-limit-mm-per-prompt", Default: `{"image": 255, "video": 1}`, VLLM: true, To: &m.LimitPerPrompt, Help: "most items of each kind in a request"},
		{
			Name: "random-mm-bucket-config", Default: "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}", VLLM: true,
			To: (*Literal)(&m.Buckets), Help: "height, width and frames of pictures, and their share; several frames are a video", Meta: "DICT",
		},
	}
}

// limits are the most pictures and videos a request may have.
func (m *RandomMM) limits() (map[string]int, error) {
	limit := map[string]int{"image": 255, "video": 1}
	if len(m.LimitPerPrompt) > 0 && json.Unmarshal(m.LimitPerPrompt, &limit) != nil {
		return nil, fmt.Errorf("%s is not an object of whole numbers", m.LimitPerPrompt)
	}
	return limit, nil
}

// pictured is random-mm: random prompts with pictures of noise. Which pictures is drawn for each request
// apart, so that requests can be made in any order.
type pictured struct {
	*random
	sum         float64
	moving      bool // there are videos
	notesVideos remarks
}

func (p *pictured) notes() []string { return append(p.random.notes(), p.notesVideos.notes()...) }

func newPictured(cfg Config, tok Tokenizer, _ Template) (dataset, int, error) {
	if !cfg.Chat {
		return nil, 0, errors.New("pictures go into chat messages: use --backend openai-chat")
	}
	p := &pictured{}
	for _, b := range cfg.Media.Sizes {
		p.sum += b.Share
		if b.Frames > 1 && b.Share > 0 {
			p.moving = true
		}
	}
	if p.moving {
		p.notesVideos.add("videos are Motion JPEG in AVI files; vLLM's client sends MPEG-4, whose files are of another size")
	}
	if p.sum <= 0 && cfg.Media.Items > 0 {
		return nil, 0, errors.New("no size of picture has a share above 0")
	}
	r, err := newRandom(cfg, tok)
	p.random = r
	return p, cfg.N, err
}

func (p *pictured) build(s *scratch, j job) (call.Request, bool, error) {
	req, keep, err := p.random.build(s, j)
	if err != nil {
		return req, false, err
	}
	draws := rng.New(p.cfg.Seed, "pictures", uint64(j.index))
	parts := []any{textPart(req.Prompt.Text)}
	left := [2]int{p.cfg.Media.Limit, p.cfg.Media.Videos}
	for range p.count(draws) {
		size, ok := p.size(draws, left)
		if !ok {
			break
		}
		part, err := p.part(draws, size)
		if err != nil {
			return req, false, err
		}
		left[size.Modality()]--
		parts = append(parts, part)
	}
	messages, err := rawJSON([]any{map[string]any{"role": "user", "content": parts}})
	req.Prompt = call.Prompt{Messages: messages}
	return req, keep, err
}

// part makes a picture or a video.
func (p *pictured) part(draws *rand.Rand, size media.Size) (any, error) {
	if size.Modality() == 0 {
		data, err := media.Picture(draws, size)
		return imagePart(media.DataURL("image/jpeg", data)), err
	}
	data, err := media.Video(draws, size)
	return videoPart(media.DataURL("video/x-msvideo", data)), err
}

// count draws the number of pictures and videos.
func (p *pictured) count(draws *rand.Rand) int {
	m := p.cfg.Media
	n := float64(m.Items)
	low := max(0, int(math.Floor(n*(1-m.Ratio))))
	most := m.Limit
	if p.moving {
		most += m.Videos
	}
	high := min(most, int(math.Ceil(n*(1+m.Ratio))))
	if high <= low {
		return min(low, most)
	}
	return low + draws.IntN(high-low+1)
}

// size draws one by the shares of those of which there may be more.
func (p *pictured) size(draws *rand.Rand, left [2]int) (last media.Size, ok bool) {
	fine := func(b media.Size) bool { return b.Share > 0 && left[b.Modality()] > 0 }
	sum := 0.0
	for _, b := range p.cfg.Media.Sizes {
		if fine(b) {
			sum += b.Share
		}
	}
	at := draws.Float64() * sum
	for _, b := range p.cfg.Media.Sizes {
		if fine(b) {
			if last, ok = b, true; at < b.Share {
				break
			}
			at -= b.Share
		}
	}
	return last, ok
}

func textPart(text string) any { return map[string]any{"type": "text", "text": text} }

func imagePart(url string) any {
	return map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}
}

func videoPart(url string) any {
	return map[string]any{"type": "video_url", "video_url": map[string]any{"url": url}}
}

var imageDataset = Dataset{
	Name: "custom_image", Path: NeedsPath, AllRows: true, About: "images in JSON lines",
	open: func(c Config, tok Tokenizer, _ Template) (dataset, int, error) { return newAlbum(c, tok, false) },
	fill: fillCustom,
	check: func(r *Run, c Problems) {
		checkCustom(r, c)
		c.Clash(!r.Chat, "dataset-name", "backend", "images go into chat messages: use --backend openai-chat")
	},
}

var audioDataset = Dataset{
	Name: "custom_audio", Path: NeedsPath, AllRows: true, About: "audio in JSON lines",
	open: func(c Config, tok Tokenizer, _ Template) (dataset, int, error) { return newAlbum(c, tok, true) },
	fill: fillCustom,
	check: func(r *Run, c Problems) {
		checkCustom(r, c)
		c.Clash(!r.Chat && !r.Speech, "dataset-name", "backend", "audio goes to --backend openai-audio, or into the messages of openai-chat")
	},
}

// album is custom_image and custom_audio: rows of JSON lines with files beside their prompts.
type album struct {
	*custom
	sound bool
}

// albumRow is a row: a prompt with files, or parts in their order.
type albumRow struct {
	Prompt  *string          `json:"prompt"`
	Images  []string         `json:"image_files"`
	Content []map[string]any `json:"content"`
	Audio   string           `json:"audio"`
}

func newAlbum(cfg Config, tok Tokenizer, sound bool) (*album, int, error) {
	if !cfg.Chat && !cfg.Speech {
		return nil, 0, errors.New("images and audio go into chat messages, and audio to openai-audio: choose such a backend")
	}
	if cfg.Speech && !sound {
		return nil, 0, errors.New("openai-audio takes audio, not images")
	}
	cfg.SkipTemplate = true // the server dresses messages
	c, n, err := newLines(cfg, tok, nil, func(raw []byte, want bool) (string, int, bool, error) { return parseAlbum(raw, sound, want) })
	return &album{custom: c, sound: sound}, n, err
}

func parseAlbum(raw []byte, sound, wantOutput bool) (string, int, bool, error) {
	var row albumRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return "", 0, false, fmt.Errorf("not a JSON object: %w", err)
	}
	switch {
	case sound && row.Audio == "":
		return "", 0, false, errors.New(`no "audio"`)
	case !sound && len(row.Content) == 0 && (row.Prompt == nil || len(row.Images) == 0):
		return "", 0, false, errors.New(`neither "content" nor "prompt" with "image_files"`)
	}
	out := 0
	if wantOutput {
		var l line
		err := json.Unmarshal(raw, &l)
		if err == nil {
			out, err = outputTokens(l.Output)
		}
		if err != nil {
			return "", 0, false, err
		}
	}
	return "", out, true, nil
}

func (a *album) build(s *scratch, j job) (call.Request, bool, error) {
	raw, err := a.read(s, a.rows[j.index])
	if err != nil {
		return call.Request{}, false, err
	}
	var row albumRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return call.Request{}, false, fmt.Errorf("%s: a row changed since it was checked: %w", a.cfg.Path, err)
	}
	req := call.Request{MaxOut: a.cfg.Output}
	if a.cfg.Output == FromData {
		req.MaxOut = int(a.outs[j.index])
	}
	text := ""
	if row.Prompt != nil {
		text = salted(a.cfg.Salt, *row.Prompt)
	}
	if a.sound {
		err = a.speech(&req, row.Audio, text)
	} else {
		text, err = a.pictures(&req, &row, text)
	}
	req.In = s.count(text)
	return req, true, err
}

// pictures makes the message of a row with images.
func (a *album) pictures(req *call.Request, row *albumRow, text string) (string, error) {
	var parts []any
	if len(row.Content) == 0 {
		parts = append(parts, textPart(text))
		for _, f := range row.Images {
			url, err := a.url(f)
			if err != nil {
				return "", err
			}
			parts = append(parts, imagePart(url))
		}
	}
	for _, p := range row.Content {
		switch p["type"] {
		case "text":
			t, _ := p["text"].(string)
			text += t
			parts = append(parts, textPart(t))
		case "image", "image_url":
			name, _ := p["image"].(string)
			if u, ok := p["image_url"].(string); ok {
				name = u
			}
			if u, ok := p["image_url"].(map[string]any); ok {
				name, _ = u["url"].(string)
			}
			url, err := a.url(name)
			if err != nil {
				return "", err
			}
			parts = append(parts, imagePart(url))
		default:
			return "", fmt.Errorf("%s: a part of type %v is neither text nor image", a.cfg.Path, p["type"])
		}
	}
	messages, err := rawJSON([]any{map[string]any{"role": "user", "content": parts}})
	req.Prompt.Messages = messages
	return text, err
}

// url is an image's address as the server takes it: the file's own, or its content.
func (a *album) url(name string) (string, error) {
	for _, scheme := range []string{"http://", "https://", "data:"} {
		if strings.HasPrefix(name, scheme) {
			return name, nil
		}
	}
	local := strings.TrimPrefix(name, "file://")
	if !a.cfg.Media.Inline {
		return "file://" + local, nil
	}
	data, kind, err := content(&a.cfg, local, "image")
	if err != nil {
		return "", err
	}
	return media.DataURL(kind, data), nil
}

// content reads a file of media, and tells its type by what is in it: a file that is no picture is not sent as one.
func content(cfg *Config, name, kind string) (data []byte, mime string, err error) {
	file, err := openMedia(cfg, name)
	if err != nil {
		return nil, "", err
	}
	data, err = io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", name, err)
	}
	if mime = media.TypeAs(kind, data); mime == "" {
		return nil, "", fmt.Errorf("media file %q: by its content it is no %s of a known kind, and is not sent", name, kind)
	}
	return data, mime, nil
}

// openMedia opens a file of media, where that is allowed.
func openMedia(cfg *Config, name string) (File, error) {
	if cfg.Media.Open == nil {
		return nil, fmt.Errorf("media file %q: no folder of media is allowed here", name)
	}
	return cfg.Media.Open(name)
}

// speech puts a sound file into a request: as such, or into a chat message.
func (a *album) speech(req *call.Request, name, text string) error {
	data, mime, err := content(&a.cfg, strings.TrimPrefix(name, "file://"), "audio")
	if err != nil {
		return err
	}
	if a.cfg.Speech {
		req.Prompt.Text, req.Prompt.Audio = text, &call.Audio{Name: path.Base(name), Data: data, Seconds: media.WAVSeconds(data)}
		return nil
	}
	_, kind, _ := strings.Cut(mime, "/")
	req.Prompt.Messages, err = rawJSON([]any{map[string]any{"role": "user", "content": []any{textPart(text), audioPart(kind, data)}}})
	return err
}

func audioPart(kind string, data []byte) any {
	return map[string]any{"type": "input_audio", "input_audio": map[string]any{"data": base64.StdEncoding.EncodeToString(data), "format": kind}}
}
