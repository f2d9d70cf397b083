package importer

func (im *importer) readLoki(f File)    {}
func (im *importer) readObjects(f File) {}
func (im *importer) readNPD(f File)     {}
