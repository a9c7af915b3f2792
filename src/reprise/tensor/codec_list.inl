// The list of all codecs of packed weights: X(name, family, layout). `layout` holds the fields of
// PanelLayout (codecs.h) in bytes per column. The headers of the families explain the bytes, and
// the number for which a code stands: block_panels.h, int8_panels.h and float_panels.h. Codecs of
// blocks come first.

X(q8_0, block_panels, .code_bytes = 32, .scale_bytes = 2)
X(q4_0, block_panels, .code_bytes = 16, .scale_bytes = 2)
X(q4_1, block_panels, .code_bytes = 16, .scale_bytes = 4)
X(q5_0, block_panels, .code_bytes = 20, .scale_bytes = 2)
X(q5_1, block_panels, .code_bytes = 20, .scale_bytes = 4)
X(iq4_nl, block_panels, .code_bytes = 16, .scale_bytes = 2)
X(iq4_xs, block_panels, .super_blocks = 8, .head_bytes = 2, .code_bytes = 16, .scale_bytes = 1)
X(q2_k, block_panels, .super_blocks = 8, .head_bytes = 4, .code_bytes = 8, .scale_bytes = 2)
X(q3_k, block_panels, .super_blocks = 8, .head_bytes = 2, .code_bytes = 12, .scale_bytes = 2)
X(q4_k, block_panels, .super_blocks = 8, .head_bytes = 4, .code_bytes = 16, .scale_bytes = 2)
X(q5_k, block_panels, .super_blocks = 8, .head_bytes = 4, .code_bytes = 20, .scale_bytes = 2)
X(q6_k, block_panels, .super_blocks = 8, .head_bytes = 2, .code_bytes = 24, .scale_bytes = 2)
X(int4_g32, block_panels, .head_bytes = 3, .code_bytes = 16)
X(int4_g128, block_panels, .super_blocks = 4, .head_bytes = 3, .code_bytes = 16)
X(int8_g128, block_panels, .super_blocks = 4, .head_bytes = 4, .code_bytes = 32)
X(mxfp4, block_panels, .code_bytes = 16, .scale_bytes = 1)
X(nvfp4, block_panels, .super_blocks = 4, .head_bytes = 4, .code_bytes = 16, .scale_bytes = 4)

X(int8_rows, int8_panels, .super_blocks = 2, .code_bytes = 32, .tail_bytes = 8)

// `_rows`: one scale for the whole depth. `_g128` and `_g64`: one scale for 128 or 64 elements.
X(f8e4m3_rows, float_panels, .code_bytes = 32, .tail_bytes = 4)
X(f8e4m3_g128, float_panels, .super_blocks = 4, .head_bytes = 4, .code_bytes = 32)
X(f8e5m2_rows, float_panels, .code_bytes = 32, .tail_bytes = 4)
X(f8e5m2_g128, float_panels, .super_blocks = 4, .head_bytes = 4, .code_bytes = 32)
X(f4_g64, float_panels, .super_blocks = 2, .head_bytes = 4, .code_bytes = 16, .tail_bytes = 4)
