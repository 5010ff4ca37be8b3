package media

import (
	"encoding/binary"
	"math"
)

// WAV writes samples between -1 and 1 as a sound file.
func WAV(samples []any, rate int) []byte {
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(36+2*len(samples)))...)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = words16(b, 1, 1)
	b = words32(b, uint32(rate), uint32(2*rate))
	b = words16(b, 2, 16)
	b = append(append(b, "data"...), binary.LittleEndian.AppendUint32(nil, uint32(2*len(samples)))...)
	for _, s := range samples {
		v, _ := s.(float64)
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(math.Round(max(-1, min(1, v))*math.MaxInt16))))
	}
	return b
}

// Seconds is how long a WAV or FLAC file plays; 0 where it does not say.
func Seconds(data []byte) float64 { return Length(data, int64(len(data))) }

// Length is how many seconds such a file plays, for a file of so many bytes, by its first ones.
func Length(data []byte, total int64) float64 {
	if len(data) < 42 || string(data[:4]) != "fLaC" || data[4]&0x7f != 0 {
		return wavLength(data, total)
	}
	info := binary.BigEndian.Uint64(data[18:]) // rate 20 bits, channels 3, bits 5, samples 36
	rate, samples := info>>44, info&(1<<36-1)
	if rate == 0 {
		return 0
	}
	return float64(samples) / float64(rate)
}

// WAVSeconds is how long a WAV file plays; 0 for other files.
func WAVSeconds(data []byte) float64 { return wavLength(data, int64(len(data))) }

// wavLength is how long a WAV file of so many bytes plays, by its first ones.
func wavLength(data []byte, total int64) float64 {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WAVE" {
		return 0
	}
	rate := uint32(0)
	for rest := data[12:]; len(rest) >= 8; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		switch body := rest[8:]; string(rest[:4]) {
		case "fmt ":
			if len(body) >= 12 {
				rate = binary.LittleEndian.Uint32(body[8:])
			}
		case "data":
			if rate == 0 {
				return 0
			}
			return float64(min(size, total-int64(len(data)-len(body)))) / float64(rate)
		}
		next := 8 + size + size%2
		if next > int64(len(rest)) {
			return 0
		}
		rest = rest[next:]
	}
	return 0
}
