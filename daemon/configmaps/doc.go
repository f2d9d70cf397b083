// Package configmaps watches the ConfigMaps that contain rule packs of namespaces. It passes their files to the loader
// of rules, and writes an Event on each ConfigMap whose files were refused.
//
// Whoever may change one namespace controls the ConfigMaps in it. Therefore a namespace has limited room, and the
// changes of a namespace take effect at a limited rate. The loader of rules checks the content.
package configmaps
