// Package tokenizer turns text into token ids and back, as the servers under
// test do, so that prompts have exactly the asked length and answers are
// counted the same way on both sides.
//
// It reads Hugging Face tokenizer.json files (byte-level BPE, SentencePiece-style
// BPE, Unigram, WordPiece) and tiktoken rank files. Nothing comes before this
// package; workload and bench come after it. Text flows through the stages in
// the order of the files: added.go cuts out added tokens, normalize.go rewrites
// what is between them, split.go and scan.go cut it into words, bpe.go,
// unigram.go or wordpiece.go turn each word into ids, post.go puts the special
// tokens around them, decode.go goes the other way. Read tokenizer.go first.
package tokenizer

//go:generate node gen/classes.mjs $UNICODE_DATA classes.bin
