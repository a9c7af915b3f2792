"""Text of models as nodes: expected nodes, streams and hostile texts. page_parts_test.py runs these tests."""

import json
import re

from page_case import Case
from scripted_server import ScriptedServer


class Markdown(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = ScriptedServer()
        cls.addClassCleanup(cls.server.close)
        cls.browser.open(cls.server.url)

    def html(self, text):
        return self.browser.module("markdown.js", "(() => { const box = document.createElement('div');"
                                   f"m.renderMarkdown(box, {json.dumps(text)}); return box.innerHTML; }})()")

    def streamed(self, text, size):
        """What is there after the text has come in pieces, and was drawn after each of them."""
        return self.browser.module("markdown.js", f"""(() => {{
            const box = document.createElement('div');
            const streamed = new m.StreamedText(box);
            const text = {json.dumps(text)};
            for (let at = 0; at < text.length; at += {size}) {{
              streamed.append(text.slice(at, at + {size}));
              streamed.render();
            }}
            return box.innerHTML; }})()""")

    CASES = [
        ("plain", "<p>plain</p>"),
        ("two\nlines\n\nnext", "<p>two\nlines</p><p>next</p>"),
        ("# One\n### Three #", "<h3>One</h3><h4>Three</h4>"),
        ("#hash and 1#", "<p>#hash and 1#</p>"),
        ("a **b *c* d** ~~e~~ __f__ _g_", "<p>a <strong>b <em>c</em> d</strong> <del>e</del> <strong>f</strong> <em>g</em></p>"),
        ("***both***", "<p><strong><em>both</em></strong></p>"),
        ("snake_case_name and 2 * 3 * 4 and 2*3*4", "<p>snake_case_name and 2 * 3 * 4 and 2*3*4</p>"),
        ("one\\\ntwo &lt;b&gt; &amp;lt; &bogus;", "<p>one\ntwo &lt;b&gt; &amp;lt; &amp;bogus;</p>"),
        ("**open and *never closed", "<p>**open and *never closed</p>"),
        (r"\*not\* emphasised", "<p>*not* emphasised</p>"),
        ("`a*b*` and ``x`y``", "<p><code>a*b*</code> and <code>x`y</code></p>"),
        ("`open", "<p>`open</p>"),
        ("<b>x</b> & <br>", "<p>&lt;b&gt;x&lt;/b&gt; &amp; <br></p>"),
        ("- a\n- b\n  - c\n- d", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li><li><p>d</p></li></ul>"),
        ("3. x\n4. y\n\n   more", '<ol start="3"><li><p>x</p></li><li><p>y</p><p>more</p></li></ol>'),
        ("1. x\n  - y", "<ol><li><p>x</p><ul><li><p>y</p></li></ul></li></ol>"),
        ("- [ ] open\n- [x] done", "<ul><li><p>☐ open</p></li><li><p>☑ done</p></li></ul>"),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("a\n***\nb", "<p>a</p><hr><p>b</p>"),
        ("| a | b |\n|---|--:|\n| 1 | `x` |\n| only", '<div class="table" tabindex="0" role="region" aria-label="Table"><table>'
         '<thead><tr><th class="left">a</th><th class="right">b</th></tr></thead><tbody><tr><td class="left">1</td>'
         '<td class="right"><code>x</code></td></tr><tr><td class="left">only</td><td class="right"></td></tr></tbody></table></div>'),
        ("a | b", "<p>a | b</p>"),
    ]

    def test_text_becomes_the_expected_nodes(self):
        for text, expected in self.CASES:
            self.assertEqual(self.html(text), expected, text)

    def test_formulas_become_mathml_and_unknown_ones_stay_their_source(self):
        def formula(text):
            return re.sub(r' alttext="[^"]*"', "", self.html(text))
        for source, expected in (
                ("x^2", "<msup><mi>x</mi><mn>2</mn></msup>"),
                ("a_i^{n+1}", "<msubsup><mi>a</mi><mi>i</mi><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></msubsup>"),
                (r"\frac{1}{\sqrt[3]{x}}", "<mfrac><mn>1</mn><mroot><mi>x</mi><mn>3</mn></mroot></mfrac>"),
                (r"f'(x) \le -3.5", '<mrow><msup><mi>f</mi><mo>′</mo></msup><mo stretchy="false">(</mo><mi>x</mi><mo stretchy="false">)'
                 '</mo><mo>≤</mo><mo>−</mo><mn>3.5</mn></mrow>'),
                (r"\log n", '<mrow><mo lspace="0.12em" rspace="0.12em">log</mo><mi>n</mi></mrow>'), (r"\mathbb{R}", "<mi>ℝ</mi>"), (r"\boxed{42}", '<mrow class="boxed"><mn>42</mn></mrow>'),
                (r"\text{if } x", "<mrow><mtext>if\u00a0</mtext><mi>x</mi></mrow>".replace("\u00a0", "&nbsp;")),
                (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", '<mrow><mo stretchy="true" fence="true">(</mo><mtable><mtr><mtd><mi>a</mi>'
                 '</mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd><mtd><mi>d</mi></mtd></mtr></mtable>'
                 '<mo stretchy="true" fence="true">)</mo></mrow>')):
            self.assertEqual(formula(f"${source}$"), f"<p><math>{expected}</math></p>", source)
            self.assertEqual(formula(f"\\({source}\\)"), f"<p><math>{expected}</math></p>", source)
        self.assertEqual(formula("$$\n\\sum_{i}^n\n$$"), '<div class="formula" tabindex="0"><math display="block"><munderover><mo>∑</mo>'
                         "<mi>i</mi><mi>n</mi></munderover></math></div>")
        for source in (r"\nosuchcommand{x}", r"\frac{1}", "{x", "x}", r"\begin{pmatrix} a", r"\left( x", "{" * 40 + "x" + "}" * 40):
            self.assertEqual(formula(f"${source}$"), f'<p><code class="formula">{source}</code></p>', source)
        for text in ("it costs $5 and $6", "a $ b $ c", "US$3-$4 more"):
            self.assertEqual(self.html(text), f"<p>{text}</p>")

    def code(self, language, text):
        return (f'<div class="code"><div class="code-head"><span>{language}</span><button type="button" class="quiet" '
                f'aria-label="Copy the code">Copy</button></div><pre tabindex="0"><code>{text}</code></pre></div>')

    def test_code_keeps_every_character(self):
        for text, expected in (
                ("```py\n\tif a:\n\n\t\tb\n```\nend", self.code("py", "\tif a:\n\n\t\tb") + "<p>end</p>"),
                ("~~~\n```\n~~~", self.code("", "```")),
                ("- item\n  ```\n  x\n   y\n  ```", "<ul><li><p>item</p>" + self.code("", "x\n y") + "</li></ul>"),
                ("```js\nnever **closed**", self.code("js", "never **closed**"))):
            self.assertEqual(self.html(text), expected, text)

    def test_only_web_and_mail_addresses_become_links(self):
        def links(text):
            self.html(text)
            return self.browser.module("markdown.js", "(() => { const box = document.createElement('div');"
                                       f"m.renderMarkdown(box, {json.dumps(text)}); return [...box.querySelectorAll('a')].map("
                                       "(a) => [a.getAttribute('href'), a.textContent, a.rel]); })()")
        rel = "noopener noreferrer"
        for text, expected in (
                ("[x](https://a.example/b_(c))", [["https://a.example/b_(c)", "x", rel]]),
                ('[**x**](http://a.example "title")', [["http://a.example/", "x", rel]]),
                ("<mailto:a@b.example>", [["mailto:a@b.example", "mailto:a@b.example", rel]]),
                ("see https://a.example/x. And", [["https://a.example/x", "https://a.example/x", rel]]),
                ("(https://a.example/x)", [["https://a.example/x", "https://a.example/x", rel]]),
                ("![picture](https://a.example/x.png)", [["https://a.example/x.png", "picture", rel]])):
            self.assertEqual(links(text), expected, text)
        for text in ("[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\tscript:alert(1))", "[x](\u0001javascript:alert(1))",
                     "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "[x](file:///etc/passwd)", "[x](//a.example)",
                     "[x](/v1/models)", "<javascript:alert(1)>", "[x](blob:https://a.example/1)", "![x](javascript:alert(1))"):
            self.assertEqual(links(text), [], text)

    def test_text_that_comes_in_pieces_ends_as_the_same_nodes(self):
        everything = "\n\n".join(text for text, _ in self.CASES) + "\n\n```py\nx = 1\n\n# no heading\n```\nafter\n- 5\n-5 degrees\na | b\n--|--\n1 | 2"
        expected = self.html(everything)
        for size in (1, 2, 3, 7, 50):
            self.assertEqual(self.streamed(everything, size), expected, size)

    def test_hostile_text_neither_runs_nor_freezes(self):
        self.browser.evaluate("window.alert = () => { window.wasHit = true; }")
        hostile = {
            "markup": "<script>alert(1)</script><img src=x onerror=alert(1)><svg onload=alert(1)><a href='javascript:alert(1)'>x</a>",
            "quotes": "> " * 10000 + "x", "lists": "- " * 10000 + "x", "numbers": "1. " * 10000,
            "deep": "\n".join(" " * n + "- x" for n in range(1000)), "fence": "```\n" + "x\n" * 50000,
            "columns": "|a" * 1000 + "|\n" + "|-" * 1000 + "|\n" + "|b" * 1000 + "|",
            "rows": "a|b\n-|-\n" + "1|2\n" * 5000, "stars": "*" * 50000, "star words": "*a " * 30000, "closers": "a* " * 30000,
            "mixed": "*a _b **c " * 10000, "brackets": "[" * 50000, "links": "[a](" * 20000, "ticks": "`" * 50000,
            "tick runs": " ".join("`" * n for n in range(1, 400)), "dollars": "$a " * 30000, "escapes": "\\(" * 30000,
            "blanks": "- a" + "\n" * 30000 + "b", "addresses": "https://a.example/" + "(" * 50000, "angles": "<https://" * 20000,
            "pipes": "|" * 50000, "formulas": "$$\n" * 10000, "braces": "$" + "{" * 900 + "$", "fractions": "$" + "\\frac" * 150 + "$",
            "scripts": "$" + "x^" * 450 + "$", "matrix": "$" + "\\begin{matrix}" * 60 + "$", "cells": "$$\n" + "&" * 50000 + "\n$$"}
        for name, text in hostile.items():
            took = self.browser.module("markdown.js", f"""(() => {{ const box = document.createElement('div');
                box.className = 'message assistant'; document.getElementById('messages').append(box);
                const began = performance.now(); m.renderMarkdown(box, {json.dumps(text)}); box.getBoundingClientRect();
                const took = performance.now() - began;
                if (box.querySelector('script, img, svg, [onerror], [onload], a[href^=javascript]')) throw new Error('markup');
                box.remove(); return took; }})()""")
            print(f"  hostile {name}: {took:.0f} ms", flush=True)
            self.assertLess(took, 5000, name)
        self.assertIsNone(self.browser.evaluate("window.wasHit ?? null"))
        self.assert_no_violations()
