# Finds what the CUDA backend is built from, at the top of the tree, where a language must be turned on: nvcc, the
# toolkit, cuBLASLt and, if it is there, cuDNN; each also in the folders of Python's wheels. The CUDA driver (libcuda) is
# no part of it: the library must load where there is none.
include(CheckLanguage)

# sm_80, sm_90 and sm_100 as machine code, and PTX for what comes after.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 100-virtual)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # one runtime in a process
find_package(CUDAToolkit 12.8 REQUIRED) # the first that knows sm_100
if(NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "REPRISE_CUDA needs nvcc: set CMAKE_CUDA_COMPILER or CUDAToolkit_ROOT")
endif()
enable_language(CXX)
enable_language(CUDA)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)

# site-packages/nvidia/<library>/{include,lib} of the Python at hand, of the active environment and of those named.
set(REPRISE_SITE_PACKAGES "" CACHE STRING "Folders of Python packages with NVIDIA's libraries")
find_program(REPRISE_PYTHON NAMES python3)
mark_as_advanced(REPRISE_PYTHON)
set(sites ${REPRISE_SITE_PACKAGES})
if(REPRISE_PYTHON)
  execute_process(COMMAND ${REPRISE_PYTHON} -c "import site, sys; print(';'.join(p for p in sys.path if 'packages' in p))"
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND sites ${found})
endif()
if(DEFINED ENV{VIRTUAL_ENV})
  file(GLOB found "$ENV{VIRTUAL_ENV}/lib/python3*/site-packages")
  list(APPEND sites ${found})
endif()
set(REPRISE_CUDA_WHEELS "")
foreach(site IN LISTS sites)
  file(GLOB found LIST_DIRECTORIES true "${site}/nvidia/*")
  list(APPEND REPRISE_CUDA_WHEELS ${found})
endforeach()

if(NOT TARGET CUDA::cublasLt)
  find_library(REPRISE_CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 HINTS ${REPRISE_CUDA_WHEELS}
               PATH_SUFFIXES lib REQUIRED)
  find_path(REPRISE_CUBLASLT_INCLUDE cublasLt.h HINTS ${REPRISE_CUDA_WHEELS} ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include REQUIRED)
  add_library(CUDA::cublasLt UNKNOWN IMPORTED GLOBAL)
  set_target_properties(CUDA::cublasLt PROPERTIES IMPORTED_LOCATION "${REPRISE_CUBLASLT_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${REPRISE_CUBLASLT_INCLUDE}")
endif()
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_package(CUDNN 9)
message(STATUS "CUDA backend: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, toolkit ${CUDAToolkit_VERSION}, cuDNN "
               "${CUDNN_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
