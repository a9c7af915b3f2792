/// The commands of LaTeX that stand for one symbol or one name.

const table = (text) => new Map(text.trim().split(/\s+/).map((entry) => {
  const at = entry.lastIndexOf("=");
  return at > 0 ? [entry.slice(0, at), entry.slice(at + 1).replace("_", "\u00a0")] : [entry, entry];
}));

/// Letters, which are set as identifiers.
export const kLetters = table(`alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ
  iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ
  varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω
  hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ imath=ı jmath=ȷ infty=∞ emptyset=∅ varnothing=∅ partial=∂ nabla=∇ degree=°
  ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ angle=∠ triangle=△ square=□ Box=□ blacksquare=■ top=⊤
  bot=⊥ prime=′ clubsuit=♣ heartsuit=♥ checkmark=✓`);

/// Operators and relations.
export const kOperators = table(`pm=± mp=∓ times=× div=÷ cdot=⋅ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ ominus=⊖
  otimes=⊗ odot=⊙ le=≤ leq=≤ leqslant=≤ ge=≥ geq=≥ geqslant=≥ ne=≠ neq=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅
  propto=∝ ll=≪ gg=≫ lt=< gt=> in=∈ notin=∉ ni=∋ subset=⊂ supset=⊃ subseteq=⊆ supseteq=⊇ subsetneq=⊊ cup=∪ cap=∩
  setminus=∖ wedge=∧ land=∧ vee=∨ lor=∨ neg=¬ lnot=¬ forall=∀ exists=∃ nexists=∄ to=→ rightarrow=→ leftarrow=←
  gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ Leftrightarrow=⇔ implies=⟹ impliedby=⟸ iff=⟺ mapsto=↦
  longrightarrow=⟶ Longrightarrow=⟹ longleftarrow=⟵ uparrow=↑ downarrow=↓ rightleftharpoons=⇌ mid=∣ nmid=∤
  parallel=∥ perp=⊥ models=⊨ vdash=⊢ therefore=∴ because=∵ colon=: lbrace={ rbrace=} lbrack=[ rbrack=] langle=⟨
  rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ vert=| lvert=| rvert=| Vert=‖ lVert=‖ rVert=‖ int=∫ iint=∬ iiint=∭
  oint=∮ backslash=\\ prec=≺ succ=≻ preceq=⪯ succeq=⪰ doteq=≐ triangleq=≜ asymp=≍ hookrightarrow=↪ sqcup=⊔ sqcap=⊓
  uplus=⊎ wr=≀ amalg=⨿ dagger=† ddagger=‡ nleq=≰ ngeq=≱ nsubseteq=⊈ vDash=⊨`);

/// Large operators, whose limits stand below and above in a block.
export const kLarge = table(`sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀ bigsqcup=⨆`);

/// Functions; the second list has limits below.
export const kFunctions = table(`sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp deg dim
  ker hom arg`);
export const kLimits = table(`lim max min sup inf det gcd Pr limsup=lim_sup liminf=lim_inf argmax argmin`);

/// Marks above or below: the mark and whether it is below.
export const kAccents = new Map(Object.entries({
  hat: "^", widehat: "^", bar: "¯", overline: "¯", vec: "→", overrightarrow: "→", tilde: "~", widetilde: "~",
  dot: "˙", ddot: "¨", check: "ˇ", breve: "˘", overbrace: "⏞", underline: "_", underbrace: "⏟",
}));

/// Spaces, in em.
export const kSpaces = new Map(Object.entries({
  ",": 0.17, ":": 0.22, ">": 0.22, ";": 0.28, "!": 0, " ": 0.33, quad: 1, qquad: 2, thinspace: 0.17,
  enspace: 0.5, space: 0.33,
}));

const kBlackboard = { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" };
const kScript = { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" };
const alphabet = (upper, lower, digit, exceptions) => (letter) => {
  if (exceptions[letter]) return exceptions[letter];
  if (/[A-Z]/.test(letter)) return String.fromCodePoint(upper + letter.charCodeAt(0) - 65);
  if (/[a-z]/.test(letter)) return String.fromCodePoint(lower + letter.charCodeAt(0) - 97);
  return digit && /\d/.test(letter) ? String.fromCodePoint(digit + Number(letter)) : letter;
};

/// Alphabets, as functions of a letter: Unicode has their letters one by one.
export const kAlphabets = new Map(Object.entries({
  mathbb: alphabet(0x1d538, 0x1d552, 0x1d7d8, kBlackboard), mathbf: alphabet(0x1d400, 0x1d41a, 0x1d7ce, {}),
  boldsymbol: alphabet(0x1d400, 0x1d41a, 0x1d7ce, {}), bm: alphabet(0x1d400, 0x1d41a, 0x1d7ce, {}),
  mathcal: alphabet(0x1d49c, 0x1d4b6, 0, kScript), mathscr: alphabet(0x1d49c, 0x1d4b6, 0, kScript),
}));
