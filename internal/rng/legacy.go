package rng

import (
	"math"
	"math/bits"
)

// Legacy is NumPy's old global generator, numpy.random.RandomState: MT19937 with the distributions frozen in
// 2017. vLLM's client still draws its arrival gaps from it. Integers and Float64 are NumPy's to the bit; what
// goes through a logarithm or a power is the correctly rounded value, which NumPy's C library returns about 99
// times in 100 and otherwise misses by the last bit.
type Legacy struct {
	mt       twister
	gauss    float64 // second of the pair the polar method makes
	hasGauss bool
}

// NewLegacy is numpy.random.RandomState(seed), the state after numpy.random.seed(seed).
func NewLegacy(seed uint32) *Legacy {
	l := new(Legacy)
	l.mt.seedWord(seed)
	return l
}

// Float64 is random_sample(): a float in [0, 1).
func (l *Legacy) Float64() float64 { return l.mt.float64() }

// StandardExponential is standard_exponential(), by inversion: one draw each.
func (l *Legacy) StandardExponential() float64 { return -Log(1 - l.Float64()) }

// Exponential is exponential(scale).
func (l *Legacy) Exponential(scale float64) float64 { return float64(scale * l.StandardExponential()) }

// Gamma is gamma(shape, scale).
func (l *Legacy) Gamma(shape, scale float64) float64 { return float64(scale * l.StandardGamma(shape)) }

// StandardGamma is standard_gamma(shape). Shape 1 is StandardExponential, below 1 it rejects as Ahrens and
// Dieter do, above 1 as Marsaglia and Tsang do.
func (l *Legacy) StandardGamma(shape float64) float64 {
	switch {
	case shape == 1:
		return l.StandardExponential()
	case shape == 0:
		return 0
	case shape < 1:
		return l.gammaBelowOne(shape)
	default:
		return l.gammaAboveOne(shape)
	}
}

func (l *Legacy) gammaBelowOne(shape float64) float64 {
	for {
		u := l.Float64()
		v := l.StandardExponential()
		if u <= 1-shape {
			if x := Pow(u, 1/shape); x <= v {
				return x
			}
			continue
		}
		y := -Log((1 - u) / shape)
		if x := Pow(1-shape+float64(shape*y), 1/shape); x <= v+y {
			return x
		}
	}
}

func (l *Legacy) gammaAboveOne(shape float64) float64 {
	b := shape - 1.0/3
	c := 1 / math.Sqrt(9*b)
	for {
		x := l.StandardNormal()
		v := 1 + float64(c*x)
		for v <= 0 {
			x = l.StandardNormal()
			v = 1 + float64(c*x)
		}
		v = float64(float64(v*v) * v)
		u := l.Float64()
		square := float64(x * x)
		if u < 1-float64(float64(0.0331*square)*square) {
			return float64(b * v)
		}
		if Log(u) < float64(float64(0.5*x)*x)+float64(b*(1-v+Log(v))) {
			return float64(b * v)
		}
	}
}

// StandardNormal is standard_normal(), by the polar method, which makes two at a time and keeps one.
func (l *Legacy) StandardNormal() float64 {
	if l.hasGauss {
		l.hasGauss = false
		return l.gauss
	}
	for {
		x := 2*l.Float64() - 1
		y := 2*l.Float64() - 1
		r := float64(x*x) + float64(y*y)
		if r < 1 && r != 0 {
			f := math.Sqrt(-2 * Log(r) / r)
			l.gauss, l.hasGauss = float64(f*x), true
			return float64(f * y)
		}
	}
}

// Normal is normal(mean, sigma).
func (l *Legacy) Normal(mean, sigma float64) float64 {
	return mean + float64(sigma*l.StandardNormal())
}

// Integers is randint(low, high) of the default 64-bit type: an integer in [low, high).
func (l *Legacy) Integers(low, high int64) int64 {
	if high <= low {
		panic("rng: Integers wants high above low")
	}
	return int64(uint64(low) + l.below(uint64(high)-uint64(low)-1))
}

// below returns an integer in [0, most] by masking and rejecting.
func (l *Legacy) below(most uint64) uint64 {
	if most == 0 {
		return 0
	}
	mask := uint64(1)<<bits.Len64(most) - 1
	for {
		var v uint64
		if most < 1<<32 {
			v = uint64(l.mt.uint32()) & mask
		} else {
			v = l.mt.uint64() & mask
		}
		if v <= most {
			return v
		}
	}
}

// Shuffle reorders a sequence of n as numpy.random.shuffle does.
func (l *Legacy) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(l.below(uint64(i))))
	}
}
