# cuDNN 9 ships no configuration for CMake. Looks in CUDNN_ROOT, beside the toolkit, and in Python's wheels (nvidia/cudnn),
# which have libcudnn.so.9 without the plain name. libcudnn itself is small and loads the rest of the library when asked.
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR
             HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_LIBRARY_DIR} ${REPRISE_CUDA_WHEELS}
             PATH_SUFFIXES lib64 lib)
# The headers that belong to it, not those of another one.
get_filename_component(beside "${CUDNN_LIBRARY}" DIRECTORY)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${beside}/../include ${CUDNN_ROOT} ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS}
          ${REPRISE_CUDA_WHEELS} PATH_SUFFIXES include)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

# cudnn_version.h may do no more than include the one of its major version.
set(CUDNN_VERSION "")
foreach(name cudnn_version.h cudnn_version_v9.h)
  if(EXISTS "${CUDNN_INCLUDE_DIR}/${name}")
    file(READ "${CUDNN_INCLUDE_DIR}/${name}" text)
    if(text MATCHES "#define CUDNN_MAJOR +([0-9]+)")
      set(CUDNN_VERSION ${CMAKE_MATCH_1})
      foreach(part MINOR PATCHLEVEL)
        if(text MATCHES "#define CUDNN_${part} +([0-9]+)")
          string(APPEND CUDNN_VERSION ".${CMAKE_MATCH_1}")
        endif()
      endforeach()
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION "${CUDNN_LIBRARY}"
                                                INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR}")
endif()
