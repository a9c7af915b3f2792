// Stands for the machine code of flashinfer_kernels.cu in a build without FlashInfer's headers, so
// that every build compiles flashinfer_table.cpp.
extern "C" const unsigned char reprise_flashinfer_image[1];
const unsigned char reprise_flashinfer_image[1] = {0};
