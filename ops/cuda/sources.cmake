# The CUDA backend's sources, for the library and for the emulator in tests/emulator.
set(REPRISE_CUDA_SOURCES
  activation.cu
  add.cu
  attention.c
  attention.cu
  attention_backward.cu
  attention_unfused.cu
  backend_cuda.c
  bias.cu
  cross_entropy.cu
  custom.c
  dropout.cu
  embedding.cu
  entry.c
  layernorm.cu
  prepare.c
  products.c
  shape.cu
  softmax.cu
  step.cu
  sum.cu
  table.c
  update.cu
  workspace.c)
list(TRANSFORM REPRISE_CUDA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
