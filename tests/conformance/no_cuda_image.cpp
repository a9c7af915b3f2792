// Stands in for machine code of the suite's kernels: nothing here runs it.
extern "C" {
extern const unsigned char reprise_conformance_image[];
const unsigned char reprise_conformance_image[1] = {0};
}
