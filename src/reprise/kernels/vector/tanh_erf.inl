// tanh and erf as odd rational functions of the clamped argument, for every instruction set. Both
// are within 3 ulp of the exact value and exact at 0, and a NaN stays a NaN. Source of the
// coefficients: Eigen, MathFunctionsImpl.h (ptanh_float) and SpecialFunctionsImpl.h (erf for
// float), whose authors fitted them; here they are evaluated by Horner's rule in float32.

REPRISE_INLINE Vec clamp(Vec x, float limit) {
  // The constant is the first operand, so that a NaN stays a NaN.
  return min(broadcast(limit), max(broadcast(-limit), x));
}

REPRISE_INLINE Vec tanh(Vec x) {
  x = clamp(x, 7.90531110763549805F);  // beyond this value, tanh rounds to 1
  const Vec square = mul(x, x);
  Vec p = broadcast(-2.76076847742355e-16F);
  p = fma(p, square, broadcast(2.00018790482477e-13F));
  p = fma(p, square, broadcast(-8.60467152213735e-11F));
  p = fma(p, square, broadcast(5.12229709037114e-08F));
  p = fma(p, square, broadcast(1.48572235717979e-05F));
  p = fma(p, square, broadcast(6.37261928875436e-04F));
  p = fma(p, square, broadcast(4.89352455891786e-03F));
  Vec q = broadcast(1.19825839466702e-06F);
  q = fma(q, square, broadcast(1.18534705686654e-04F));
  q = fma(q, square, broadcast(2.26843463243900e-03F));
  q = fma(q, square, broadcast(4.89352518554385e-03F));
  return div(mul(x, p), q);
}
/// The result is close to x for small x, and never beyond the cap.
REPRISE_INLINE Vec soft_capped(Vec x, float cap) {
  return mul(tanh(div(x, broadcast(cap))), broadcast(cap));
}

REPRISE_INLINE Vec erf(Vec x) {
  x = clamp(x, 4.0F);  // beyond this value, erf rounds to 1
  const Vec square = mul(x, x);
  Vec p = broadcast(-2.72614225801306e-10F);
  p = fma(p, square, broadcast(2.77068142495902e-08F));
  p = fma(p, square, broadcast(-2.10102402082508e-06F));
  p = fma(p, square, broadcast(-5.69250639462346e-05F));
  p = fma(p, square, broadcast(-7.34990630326855e-04F));
  p = fma(p, square, broadcast(-2.95459980854025e-03F));
  p = fma(p, square, broadcast(-1.60960333262415e-02F));
  Vec q = broadcast(-1.45660718464996e-05F);
  q = fma(q, square, broadcast(-2.13374055278905e-04F));
  q = fma(q, square, broadcast(-1.68282697438203e-03F));
  q = fma(q, square, broadcast(-7.37332916720468e-03F));
  q = fma(q, square, broadcast(-1.42647390514189e-02F));
  return div(mul(x, p), q);
}
