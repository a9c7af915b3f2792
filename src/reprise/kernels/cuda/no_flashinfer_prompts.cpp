// Stands for the machine code of flashinfer_prompts.cu in a build without FlashInfer's headers or
// without sm_90a, so that every build compiles flashinfer_table.cpp.
extern "C" const unsigned char reprise_flashinfer_prompts_image[1];
const unsigned char reprise_flashinfer_prompts_image[1] = {0};
